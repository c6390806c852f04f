"""The distillation stage: every method end to end, killed, on two processes, and what users do wrong."""

import json
import os
import subprocess
import sys
import time

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import hf_albert_plus
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phases import Layers
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.distillation.students import student_architecture
from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.records.record import fingerprint, read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.row_order import LengthGrouped
from hf_albert_plus.training.settings import TrainSettings
from tests.support.command_line import invoke
from tests.support.processes import running
from tests.support.small_models import SMALL, pair_inputs, small_config

QUICK = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")


def _settings(method, *, student="half", overrides=(), **options):
    return DistilSettings(
        method, StudentSettings(student, overrides), **{"epochs": 0.2, "learning_rate": 1e-3, **options}
    )


def _distill(teacher, out, method, *, task="sst2", data, settings=QUICK, **options):
    return distill(
        str(teacher),
        data=None if data is None else str(data),
        task=None if data is None else get_task(task),
        output=out,
        settings=settings,
        method=_settings(method, **options),
    )


# The stage


# A student of its own vocabulary is a directory with a tokenizer: `test_dual_training` makes one. Sentence encoders learn from text alone:
# `test_embeddings` has them.
@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if not (row.own_vocabulary or row.vectors)])
def test_every_method_makes_a_student_and_leaves_the_teacher_alone(method, teachers, masked_lm, data_dir, tmp_path):
    teacher = teachers / "mrpc"
    before = fingerprint(teacher)
    values = (("relation_heads", 8),) if method == "minilm-v2" else ()
    record = _distill(
        teacher, tmp_path / "student", method, task="mrpc", data=data_dir, values=values, general_teacher=str(masked_lm)
    )
    assert fingerprint(teacher) == before
    assert read_record(tmp_path / "student").settings["method"] == method
    names = [phase.name for phase in METHODS[method].phases(Layers(student=2, teacher=4))]
    assert list(record.result["phases"]) == names
    for phase in record.result["phases"].values():
        assert phase["steps"] > 0
        assert set(phase["losses"]) == {part.partition("·")[2] for part in phase["terms"].split(" + ")}
    if METHODS[method].towers:
        student = hf_albert_plus.AlbertPlusTwinModel.from_pretrained(tmp_path / "student")
    else:
        student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "student")
        assert student.config.exit_layers == ([1] if method in ("fastbert", "pabee") else None)
        assert list(student.config.id2label.values()) == list(get_task("mrpc").labels)
    assert student.config.attention_map == (0, 0)
    assert not list((tmp_path / "student").rglob("checkpoint*"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kd", "tinybert"])
def test_regression_follows_the_teachers_number(method, teachers, data_dir, tmp_path):
    _distill(teachers / "stsb", tmp_path / "student", method, task="stsb", data=data_dir)
    student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "student")
    assert (student.config.num_labels, student.config.problem_type) == (1, "regression")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kd-hidden", "tinybert", "minilm"])
def test_training_moves_a_random_student_towards_its_teacher(method, teachers, data_dir, tmp_path):
    """More epochs end nearer to the teacher, by the term that reads its inside."""
    term = {"kd-hidden": "hidden_states", "tinybert": "attention_scores", "minilm": "relations"}[method]
    ends = []
    for epochs in (1.0, 12.0):
        how = DistilSettings(method, StudentSettings(initialise="random"), epochs=epochs, learning_rate=1e-3)
        record = distill(
            str(teachers / "sst2"),
            data=str(data_dir),
            task=get_task("sst2"),
            output=tmp_path / str(epochs),
            settings=QUICK,
            method=how,
        )
        phases = record.result["phases"].values()
        ends.append(next(phase["losses"][term] for phase in phases if term in phase["losses"]))
    assert ends[1] < 0.8 * ends[0]


@pytest.mark.slow
def test_a_general_student_is_made_of_text_alone_and_taken_up_by_a_task(
    teachers, encoder_dir, masked_lm, text, data_dir, tmp_path
):
    general = _distill(encoder_dir, tmp_path / "general", "tinybert", data=None, phases="general", text=text)
    assert list(general.result["phases"]) == ["general"]
    assert hf_albert_plus.AlbertPlusModel.from_pretrained(tmp_path / "general").config.num_hidden_layers == 2
    words = _distill(masked_lm, tmp_path / "words", "distilbert", data=None, phases="general", text=text)
    assert set(words.result["phases"]["general"]["losses"]) == {"soft_words", "masked_words", "cosine"}
    saved = load_file(tmp_path / "words" / "model.safetensors")
    _, report = hf_albert_plus.AlbertPlusForMaskedLM.from_pretrained(tmp_path / "words", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert "predictions.decoder.weight" not in saved
    record = _distill(teachers / "sst2", tmp_path / "student", "kd", data=data_dir, student=str(tmp_path / "general"))
    assert record.result["initialised"] == f"the weights of {tmp_path / 'general'}"
    assert record.parents["student"]["sha256"] == fingerprint(tmp_path / "general")


@pytest.mark.slow
def test_a_student_of_another_vocabulary_learns_predictions_alone(teachers, data_dir, tmp_path):
    own = tmp_path / "own"
    tokenizer = AutoTokenizer.from_pretrained(teachers / "sst2")
    smaller = tokenizer.train_new_from_iterator(["the film is superb", "a dull plot"], vocab_size=60)
    smaller.save_pretrained(own)
    hf_albert_plus.AlbertPlusModel(small_config(vocab_size=len(smaller))).save_pretrained(own)
    _distill(teachers / "sst2", tmp_path / "student", "kd", data=data_dir, student=str(own))
    assert AutoTokenizer.from_pretrained(tmp_path / "student").get_vocab() == smaller.get_vocab()
    with pytest.raises(InvalidInput, match="compares token by token: .* must have one vocabulary, got .*; use"):
        _distill(teachers / "sst2", tmp_path / "other", "pkd", data=data_dir, student=str(own))


@pytest.mark.slow
def test_an_assistant_is_a_student_that_teaches(teachers, encoder_dir, data_dir, text, tmp_path):
    """MiniLM's teacher assistant: the teacher's depth at the student's width, then the student from it."""
    assistant = (("hidden_size", 16), ("intermediate_size", 24), ("num_hidden_layers", 4))
    _distill(
        encoder_dir, tmp_path / "assistant", "minilm", data=None, text=text, phases="transfer", overrides=assistant
    )
    record = _distill(
        teachers / "sst2", tmp_path / "student", "minilm", data=data_dir, text=text, overrides=(*assistant[:2], ("num_hidden_layers", 2)),
        general_teacher=str(tmp_path / "assistant"),
    )  # fmt: skip
    assert record.parents["general_teacher"]["sha256"] == fingerprint(tmp_path / "assistant")
    assert set(record.result["phases"]["transfer"]["losses"]) == {"relations"}


def _invoke_words(teacher, data_dir, out, *more):
    return ["distill", "--method", "tinybert", "--teacher", teacher, "--data", data_dir, "--task", "sst2", "--max-length", 32,
            "--learning-rate", 1e-3, "--precision", "fp32", "--batch-size", 8, "--out", out, *more]  # fmt: skip


@pytest.mark.slow
def test_killed_in_its_second_phase_it_goes_on_to_the_same_weights(teachers, masked_lm, data_dir, tmp_path):
    """DistilBERT's masks and the classifier's dropout, drawn anew in every epoch, are those of a run that was let alone."""
    source = str(teachers / "sst2")

    def words(out, *more):
        return [
            "distill", "--method", "mobilebert", "--teacher", source, "--general-teacher", str(masked_lm), "--data", str(data_dir),
            "--task", "sst2", "--phases", "layer-1,words,task", "--batch-size", "4", "--max-length", "32", "--precision", "fp32",
            "--set", "transfer_epochs=0.4", "--set", "words_epochs=2", "--epochs", "0.5", "--learning-rate", "1e-3",
            "--set", "layer_map=uniform", "--threads", "1", "--out", str(out), *more,
        ]  # fmt: skip

    program = """
import sys
from hf_albert_plus.distillation import run
whole = run.train
run.train = lambda *args, **options: whole(*args, **{**options, "checkpoint_seconds": 0})
from hf_albert_plus.cli import main
sys.argv = ["albert-plus", *sys.argv[1:]]
main()
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = [sys.executable, "-c", program]
    checkpoints = tmp_path / "killed.partial" / "checkpoints"

    def steps():
        return [int(path.parent.name[11:]) for path in checkpoints.glob("1-words/checkpoint-*/complete")]

    with running([*start, *words(tmp_path / "killed")], stderr=subprocess.DEVNULL, env=environment) as process:
        # In its second epoch: each has 24 steps.
        while max(steps(), default=0) <= 24:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.kill()
    assert (checkpoints / "0-layer-1.json").is_file()
    invoke(*words(tmp_path / "whole"))
    invoke(*words(tmp_path / "killed"))
    record = read_record(tmp_path / "killed")
    assert record.result["phases"]["words"]["resumed_at_step"] > 24
    whole, again = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


@pytest.mark.slow
def test_two_processes_do_what_one_does(teachers, data_dir, tmp_path):
    """accelerate launch with gloo, each process half of every batch: the students agree, and so do all losses."""
    words = [*_invoke_words(teachers / "sst2", data_dir, "OUT", "--set", "general_epochs=0", "--epochs", 1),
             "--set", "classifier_dropout_prob=0"]  # fmt: skip
    invoke(*(tmp_path / "one" if word == "OUT" else word for word in words))
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0", "-m", "hf_albert_plus"]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    two = subprocess.run(
        [*launch, *(str(tmp_path / "two" if word == "OUT" else word) for word in words)],
        env=environment, capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert two.returncode == 0, two.stderr[-3000:]
    assert two.stdout.strip().splitlines() == [str(tmp_path / "two")]
    one, both = (read_record(tmp_path / name).result["phases"] for name in ("one", "two"))
    for phase in one:
        assert (one[phase]["processes"], both[phase]["processes"]) == (1, 2)
        assert one[phase]["steps"] == both[phase]["steps"] > 0
        assert one[phase]["train_loss"] == pytest.approx(both[phase]["train_loss"], rel=1e-3)
    batch = pair_inputs(SMALL["vocab_size"])
    answers = [
        AutoModelForSequenceClassification.from_pretrained(tmp_path / name).eval()(**batch).logits
        for name in ("one", "two")
    ]
    torch.testing.assert_close(answers[0], answers[1], atol=1e-3, rtol=1e-3)


@pytest.mark.slow
def test_projections_go_on_where_the_phase_before_left_them(teachers, data_dir, tmp_path, monkeypatch):
    """TinyBERT with a narrower student: its second phase starts with the maps that the first one learned."""
    from hf_albert_plus.distillation import run

    begun, ended = [], []
    train = run.train

    def watched(distiller, **options):
        begun.append({name: tensor.clone() for name, tensor in distiller.projections.state_dict().items()})
        result = train(distiller, **options)
        ended.append({name: tensor.clone() for name, tensor in distiller.projections.state_dict().items()})
        return result

    monkeypatch.setattr(run, "train", watched)
    narrow = (("hidden_size", 16), ("intermediate_size", 24))
    _distill(teachers / "sst2", tmp_path / "student", "tinybert", data=data_dir, overrides=narrow)
    assert set(begun[0]) == {f"{name}.{leaf}" for name in ("embedding", "hidden") for leaf in ("weight", "bias")}
    for name in begun[0]:
        assert not torch.equal(begun[0][name], ended[0][name])
        assert torch.equal(begun[1][name], ended[0][name])


@pytest.mark.slow
def test_a_weight_of_zero_leaves_out_the_term_and_all_that_it_needs(teachers, data_dir, tmp_path):
    """Without the terms on words DistilBERT's general phase needs no masked language model, without attention no heads."""
    values = (("soft_words_weight", 0), ("masked_words_weight", 0))
    record = _distill(teachers / "sst2", tmp_path / "a", "distilbert", data=data_dir, values=values)
    assert record.result["phases"]["general"]["terms"] == "1·cosine"
    values = (("attention_weight", 0),)
    heads = (("num_attention_heads", 2),)
    _distill(teachers / "sst2", tmp_path / "b", "tinybert", data=data_dir, values=values, overrides=heads)


@pytest.mark.slow
def test_two_towers_start_where_a_directory_says(teachers, classifier_dir, data_dir, tmp_path):
    first = _distill(
        teachers / "mrpc", tmp_path / "one", "twinbert", task="mrpc", data=data_dir, student=str(classifier_dir)
    )
    assert first.result["initialised"] == f"the weights of {classifier_dir}"
    second = _distill(
        teachers / "mrpc",
        tmp_path / "two",
        "twinbert",
        task="mrpc",
        data=data_dir,
        student=str(tmp_path / "one"),
        learning_rate=1e-9,
    )
    assert second.result["initialised"] == f"the weights of {tmp_path / 'one'}"
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, two[name], atol=1e-6, rtol=0)


@pytest.mark.slow
def test_a_students_own_head_for_words_is_kept(masked_lm, text, tmp_path):
    _distill(masked_lm, tmp_path / "first", "distilbert", data=None, phases="general", text=text)
    again = _distill(
        masked_lm,
        tmp_path / "second",
        "distilbert",
        data=None,
        phases="general",
        text=text,
        student=str(tmp_path / "first"),
        learning_rate=1e-9,
    )
    assert again.result["initialised"] == f"the weights of {tmp_path / 'first'}"
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    for name, tensor in first.items():
        torch.testing.assert_close(tensor, second[name], atol=1e-6, rtol=0)


@pytest.mark.slow
def test_a_task_that_no_phase_reads_is_left_out(encoder_dir, text, data_dir, tmp_path):
    record = _distill(encoder_dir, tmp_path / "general", "minilm", data=data_dir, text=text, phases="transfer")
    assert record.settings["task"] == "none"
    assert "data" not in record.parents
    assert hf_albert_plus.AlbertPlusModel.from_pretrained(tmp_path / "general").config.architectures == [
        "AlbertPlusModel"
    ]


@pytest.mark.slow
def test_another_general_teacher_is_another_run(teachers, encoder_dir, masked_lm, data_dir, tmp_path):
    common = {"data": data_dir, "phases": "task", "values": ()}
    _distill(teachers / "sst2", tmp_path / "student", "minilm", general_teacher=str(encoder_dir), **common)
    with pytest.raises(StageConflict, match="general_teacher"):
        _distill(teachers / "sst2", tmp_path / "student", "minilm", general_teacher=str(masked_lm), **common)
    with pytest.raises(StageConflict, match="general_teacher"):
        _distill(teachers / "sst2", tmp_path / "student", "minilm", **common)


@pytest.mark.slow
def test_token_types_reach_whoever_reads_them(tokenizer_dir, teachers, data_dir, tmp_path):
    """A student with token types beside a teacher without, and the other way round."""
    without = tmp_path / "without"
    config = transformers.DistilBertConfig(
        vocab_size=len(AutoTokenizer.from_pretrained(tokenizer_dir)),
        dim=32,
        n_layers=4,
        n_heads=4,
        hidden_dim=48,
        max_position_embeddings=64,
    )
    transformers.DistilBertForSequenceClassification(config).save_pretrained(without)
    AutoTokenizer.from_pretrained(tokenizer_dir).save_pretrained(without)
    types = (("type_vocab_size", 2), ("hidden_act", "gelu"))
    _distill(without, tmp_path / "a", "pkd", task="mrpc", data=data_dir, overrides=types)
    pair = AutoTokenizer.from_pretrained(tmp_path / "a")("the film", "the plot")
    assert set(pair["token_type_ids"]) == {0, 1}
    table = load_file(tmp_path / "a" / "model.safetensors")["albert_plus.embeddings.token_type_embeddings.weight"]
    assert table[1].abs().sum() > 0
    _distill(teachers / "mrpc", tmp_path / "b", "pkd", task="mrpc", data=data_dir, overrides=(("type_vocab_size", 0),))
    assert "token_type_ids" not in AutoTokenizer.from_pretrained(tmp_path / "b")("the film", "the plot")


def test_rows_come_in_one_order_whatever_was_drawn_before_and_however_many_processes():
    lengths = [int(n) for n in torch.randint(4, 30, (103,), generator=torch.Generator().manual_seed(0))]
    orders = []
    for epoch, drawn in ((0, 0), (0, 7), (1, 0)):
        torch.manual_seed(drawn)
        orders.append(list(LengthGrouped(lengths, 8, epoch=lambda epoch=epoch: epoch, seed=5)))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[0]) == list(range(103))
    assert orders[0] != list(LengthGrouped(lengths, 8, epoch=lambda: 0, seed=6))
    spread = [
        max(lengths[i] for i in batch) - min(lengths[i] for i in batch)
        for batch in (orders[0][b : b + 8] for b in range(0, 96, 8))
    ]
    assert sum(spread) / len(spread) < 10  # of rows as they come it is about 20


# What users do wrong


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "tinybrt"], "--method must be a known method .*'tinybrt'; did you mean 'tinybert'"),
        (["--method", "kd", "--set", "temprature=3"], "setting of kd or a field of AlbertPlusConfig, got 'temprature'; did you mean 'temperature'"),
        (["--method", "kd", "--set", "temperature=0"], "temperature must be greater than 0, got 0"),
        (["--method", "kd", "--set", "soft_share=1.5"], "soft_share must lie between 0 and 1, got 1.5"),
        (["--method", "pkd", "--set", "patient_weight=-1"], "patient_weight must be at least 0, got -1"),
        (["--method", "pkd", "--set", "normalise=3"], "normalise of pkd must be true or false, got 3"),
        (["--method", "pkd", "--set", "layer_map=lst"], "uniform, skip, last or layers with commas, got 'lst'; did"),
        (["--method", "kd", "--set", "temperature=warm"], "temperature of kd must be a number, got 'warm'"),
        (["--method", "minilm-v2", "--set", "relation_heads=7"], "relation_heads must divide the width of the student's attention, 32, got 7; use one of 1, 2, 4"),
        (["--method", "minilm-v2", "--set", "relation_heads=8", "--set", "teacher_layer=9"], "teacher_layer must lie between 1 and the teacher's 4 layers, or be 0 for its last, got 9"),
        (["--method", "pkd", "--set", "layer_map=1,99"], "layers 1 to 4 for each of the student's 2, got 1,99; use 2,4"),
        (["--method", "tinybert", "--set", "num_attention_heads=2"], "attention_scores of the phase general needs as many heads in every layer of the student as in the teacher.s, got 2 and 4"),
        (["--method", "kd", "--set", "vocab_size=50"], "the tokenizer must have at most vocab_size .50. tokens"),
        (["--method", "kd", "--set", "soft_share=0", "--set", "vocab_size=50"], "vocab_size"),
        (["--method", "distilbert", "--phases", "general", "--set", "soft_words_weight=0", "--set", "masked_words_weight=0", "--set", "cosine_weight=0"], "the phase general must have a loss with weight"),
        (["--method", "kd", "--epochs", "0"], "--epochs .* got 0"),
        (["--method", "kd", "--learning-rate", "3"], "--learning-rate .* got 3"),
        (["--phases", "genral", "--method", "tinybert"], "--phases must name phases of tinybert, got 'genral'; did you mean 'general'"),
        (["--student", "albert-base-v3"], "must be a known student or a model directory, got 'albert-base-v3'; did you mean 'albert-base-v2'"),
        (["--set", "ffn_sharing=7"], "between 1 and num_hidden_layers"),
        (["--method", "distilbert"], "phase general needs a teacher with a masked language modelling head, got .*BertForSequenceClassification"),
        (["--method", "twinbert"], "two towers need a task with pairs of texts that match or not, got sst2; use one of mrpc, qqp"),
        (["--text", "nowhere.txt"], "--text must be a text file, got nowhere.txt"),
        (["--method", "fastbert", "--set", "num_hidden_layers=1"], "fastbert needs a student with at least 2 layers"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(words, message, teachers, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        invoke(
            "distill",
            "--teacher",
            teachers / "sst2",
            "--data",
            data_dir,
            "--task",
            "sst2",
            "--max-length",
            32,
            "--out",
            tmp_path / "s",
            *words,
        )
    assert not (tmp_path / "s").exists()


def test_a_teacher_of_another_task_and_a_missing_task_are_refused(teachers, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match="1 labels of stsb, got .* with 2 labels; fine-tune it first"):
        _distill(teachers / "sst2", tmp_path / "s", "kd", task="stsb", data=data_dir)
    with pytest.raises(InvalidInput, match="the phase task of kd reads a task: --data and --task must be given"):
        _distill(teachers / "sst2", tmp_path / "s", "kd", data=None)


def test_a_general_teacher_of_other_words_is_refused(teachers, data_dir, tmp_path):
    other = tmp_path / "other"
    tokenizer = AutoTokenizer.from_pretrained(teachers / "sst2").train_new_from_iterator(
        ["another language"], vocab_size=60
    )
    tokenizer.save_pretrained(other)
    transformers.BertModel(transformers.BertConfig(**{**SMALL, "vocab_size": len(tokenizer)})).save_pretrained(other)
    with pytest.raises(InvalidInput, match="the phase general of tinybert compares token by token"):
        _distill(teachers / "sst2", tmp_path / "s", "tinybert", data=data_dir, general_teacher=str(other))


def test_a_student_directory_of_another_family_is_refused(teachers, encoder_dir, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match="must be an ALBERT-plus model, got .* of the family bert; convert it first"):
        _distill(teachers / "sst2", tmp_path / "s", "kd", data=data_dir, student=str(encoder_dir))


@pytest.mark.slow
def test_a_shared_block_is_run_as_often_as_asked(teachers, data_dir, tmp_path):
    _distill(teachers / "sst2", tmp_path / "two", "kd", data=data_dir)
    deeper = {"student": str(tmp_path / "two"), "overrides": (("num_hidden_layers", 3),), "learning_rate": 1e-12}
    _distill(teachers / "sst2", tmp_path / "three", "kd", data=data_dir, **deeper)
    two, three = (AutoModelForSequenceClassification.from_pretrained(tmp_path / name) for name in ("two", "three"))
    assert (two.config.num_hidden_layers, three.config.num_hidden_layers) == (2, 3)
    for name, weight in two.state_dict().items():
        torch.testing.assert_close(three.state_dict()[name], weight)
    unshared = small_config(num_hidden_layers=2, attention_sharing="none", ffn_sharing="all")
    hf_albert_plus.AlbertPlusForSequenceClassification(unshared).save_pretrained(tmp_path / "unshared")
    for overrides, message in (
        ({"num_hidden_layers": 3}, r"as many as they are, got 3 layers of .*: \(3, 1\) blocks where .* of \(2, 1\)"),
        ({"num_hidden_layers": 1}, r"\(1, 1\) blocks where there are weights of \(2, 1\); leave it out"),
        (
            {"hidden_size": 8},
            "a directory has its own: exits, dropout and num_hidden_layers can be changed, got hidden_size",
        ),
    ):
        student = StudentSettings(student=str(tmp_path / "unshared"), overrides=tuple(overrides.items()))
        with pytest.raises(InvalidInput, match=message):
            student_architecture(unshared, student)


def test_the_list_of_methods_is_the_table(capsys):
    told = json.loads(invoke("distill", "--list-methods", "--json").stdout)
    assert list(told) == list(METHODS)
    assert told["distilbert"]["phases"]["general"] == "5·soft_words + 2·masked_words + 1·cosine"
    assert told["pkd"]["defaults"]["patient_weight"] == 500
    text = invoke("distill", "--list-methods").stdout
    for row in told.values():
        assert row["source"] in text
