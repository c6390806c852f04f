"""What is captured, how methods compose the losses, and the stage: every method end to end, killed, and on two processes."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import hf_albert_plus
from hf_albert_plus.distillation import METHODS, DistilSettings, Layers, StudentSettings, distill, layer_map, losses
from hf_albert_plus.distillation.capture import capture
from hf_albert_plus.distillation.rows import TEACHER_LOGITS, Collator, task_rows, text_rows
from hf_albert_plus.distillation.teachers import with_teacher_logits
from hf_albert_plus.distillation.trainer import Distiller, projections_of
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.finetune import finetune
from hf_albert_plus.glue import get_task
from hf_albert_plus.pretraining.masking import DynamicMasking, smoothed_weights
from hf_albert_plus.records import fingerprint, read_record
from hf_albert_plus.training import TrainSettings
from tests.conftest import SMALL, invoke, pair_inputs, randomise, small_config

QUICK = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")
INSIDE = frozenset({"hidden_states", "attention"})


@pytest.fixture(scope="module")
def teachers(tmp_path_factory, encoder_dir, data_dir):
    """Classifiers of three tasks, task -> directory."""
    folder = tmp_path_factory.mktemp("teachers")
    for name in ("sst2", "mrpc", "stsb"):
        settings = replace(QUICK, epochs=0.5)
        finetune(str(encoder_dir), data=str(data_dir), task=get_task(name), output=folder / name, settings=settings)
    return folder


@pytest.fixture(scope="module")
def masked_lm(tmp_path_factory, encoder_dir):
    """The same encoder with a masked language modelling head."""
    directory = tmp_path_factory.mktemp("words")
    torch.manual_seed(0)
    transformers.BertForMaskedLM.from_pretrained(encoder_dir).save_pretrained(directory)
    AutoTokenizer.from_pretrained(encoder_dir).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    from random import Random

    from hf_albert_plus.demo.tasks import pretraining_pair

    random, file = Random(1), tmp_path_factory.mktemp("text") / "text.txt"
    documents = ["\n".join(" ".join(pretraining_pair(random)) for _ in range(4)) for _ in range(12)]
    file.write_text("\n\n".join(documents) + "\n")
    return file


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


# Layer maps


@pytest.mark.parametrize(
    ("chosen", "student", "teacher", "expected"),
    [
        ("uniform", 4, 12, (3, 6, 9, 12)),
        ("uniform", 5, 12, (2, 4, 7, 9, 12)),
        ("skip", 6, 12, (2, 4, 6, 8, 10, 12)),
        ("skip", 5, 12, (2, 4, 6, 8, 10)),
        ("last", 6, 12, (7, 8, 9, 10, 11, 12)),
        ("uniform", 3, 3, (1, 2, 3)),
        ("1,6,2", 3, 6, (1, 6, 2)),
        ("4", 1, 6, (4,)),
    ],
)
def test_layer_maps_worked_by_hand(chosen, student, teacher, expected):
    """TinyBERT's g(m) = 3m; PKD leaves out the last of its six: Skip 2, 4, 6, 8, 10 and Last 7 to 11."""
    assert layer_map(chosen, student_layers=student, teacher_layers=teacher) == expected


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("unifrom", "uniform, skip, last or layers with commas, got 'unifrom'; did you mean 'uniform'"),
        ("last", "at least the student's 7 layers, got 6 layers; name a teacher layer for each"),
        ("1,2", "1 to 6 for each of the student's 7, got 1,2"),
        ("1,2,3,4,5,6,7", "1 to 6 for each"),
        ("1,,2", "1 to 6"),
    ],
)
def test_layer_maps_that_cannot_be_are_refused(chosen, words):
    with pytest.raises(InvalidInput, match=words):
        layer_map(chosen, student_layers=7, teacher_layers=6)


# Capture


FAMILIES = {
    "Bert": {},
    "Roberta": {},
    "Electra": {},
    "Albert": {"embedding_size": 16},
    "DistilBert": {"dim": 32, "n_layers": 4, "n_heads": 4, "hidden_dim": 48},
    "MobileBert": {"intra_bottleneck_size": 16, "embedding_size": 16},
    "AlbertPlus": {"embedding_size": 16, "attention_sharing": [0, 1, 0, 1]},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_captured_of_a_call_gives_the_models_own_attention(family):
    """Softmax of the captured scores is what the eager model returns as attentions: for layers that share a block too."""
    module = hf_albert_plus if family == "AlbertPlus" else transformers
    config = getattr(module, f"{family}Config")(**{**SMALL, **FAMILIES[family]})
    model = randomise(getattr(module, f"{family}Model")(config))
    inputs = pair_inputs(SMALL["vocab_size"])
    if family in ("Roberta", "DistilBert"):
        del inputs["token_type_ids"]
    seen = capture(model, inputs, needs=INSIDE)
    assert len(seen.queries) == len(seen.hidden_states) - 1 == 4
    model.set_attn_implementation("eager")
    expected = model(**inputs, output_attentions=True, output_hidden_states=True)
    padding = inputs["attention_mask"][:, None, None] == 0
    for layer in range(4):
        scores = losses.attention_scores(seen.queries[layer], seen.keys[layer])
        ours = scores.masked_fill(padding, -torch.inf).softmax(-1)
        torch.testing.assert_close(ours, expected.attentions[layer], atol=2e-6, rtol=1e-4)
        torch.testing.assert_close(seen.hidden_states[layer], expected.hidden_states[layer], atol=2e-5, rtol=1e-4)


def test_a_shared_block_is_captured_once_a_layer_with_its_gradient():
    model = randomise(hf_albert_plus.AlbertPlusModel(small_config()))
    seen = capture(model, pair_inputs(SMALL["vocab_size"]), needs=INSIDE)
    block = model.encoder.attention[0]
    assert len(model.encoder.attention) == 1
    for layer in range(4):
        again = block.query(seen.hidden_states[layer])
        torch.testing.assert_close(seen.queries[layer].transpose(1, 2).flatten(2), again)
    seen.keys[2].sum().backward()
    assert block.key.weight.grad.abs().sum() > 0


def test_attention_that_cannot_be_captured_is_refused():
    config = transformers.BertConfig(**SMALL, attn_implementation="eager")
    with pytest.raises(InvalidInput, match="got 0 calls of BertModel with 4 layers and attn_implementation='eager'"):
        capture(transformers.BertModel(config), pair_inputs(SMALL["vocab_size"]), needs=INSIDE)


# Methods as compositions


def _pair(head="ForSequenceClassification"):
    """A student with two all-shared layers and a teacher with four of its own, of one width."""
    student = randomise(getattr(hf_albert_plus, f"AlbertPlus{head}")(small_config(num_hidden_layers=2)))
    teacher = randomise(getattr(transformers, f"Bert{head}")(transformers.BertConfig(**SMALL)))
    return student, teacher


def _phase(method, name, **settings):
    phases = METHODS[method].phases(Layers(student=2, teacher=4), settings)
    return next(phase for phase in phases if phase.name == name)


def _batch(labels=True):
    return {**pair_inputs(SMALL["vocab_size"]), **({"labels": torch.tensor([0, 1, 1])} if labels else {})}


def test_patient_distillation_is_the_papers_sum():
    """PKD, eq. 8: (1 - α)·labels + α·T²·KL + β·patience, for a two-layer student: its first layer follows the second."""
    student, teacher = _pair()
    batch = _batch()
    loss = Distiller(
        student, teacher, _phase("pkd", "task", temperature=5.0, soft_share=0.2, patient_weight=10.0)
    ).eval()(**batch)
    ours = student(**batch, output_hidden_states=True)
    theirs = teacher(**{k: v for k, v in batch.items() if k != "labels"}, output_hidden_states=True)
    normal = [torch.nn.functional.normalize(h[:, 0], dim=-1) for h in (ours.hidden_states[1], theirs.hidden_states[2])]
    log_p, log_q = ((out.logits / 5).log_softmax(-1) for out in (theirs, ours))
    soft = 25 * (log_p.exp() * (log_p - log_q)).sum(-1).mean()
    expected = 0.8 * ours.loss + 0.2 * soft + 10 * (normal[0] - normal[1]).square().mean()
    torch.testing.assert_close(loss["loss"], expected)


def test_tinybert_sums_layers_and_projects_where_widths_differ():
    student = randomise(hf_albert_plus.AlbertPlusModel(small_config(num_hidden_layers=2, hidden_size=24)))
    _, teacher = _pair("Model")
    batch = _batch(labels=False)
    phase = _phase("tinybert", "intermediate")
    widths = projections_of(phase, student.config, teacher.config)
    assert widths == {"embedding": (24, 32), "hidden": (24, 32)}
    assert projections_of(phase, teacher.config, teacher.config) == {}
    maps = {name: torch.nn.Linear(*each) for name, each in widths.items()}
    distiller = Distiller(student, teacher, phase, maps).eval()
    loss = distiller(**batch)["loss"]
    ours, theirs = (capture(model, batch, needs=INSIDE) for model in (student, teacher))
    mask = batch["attention_mask"]
    expected = losses.embedding_loss(
        ours.hidden_states[0], theirs.hidden_states[0], mask, projection=distiller.projections["embedding"]
    )
    for m, g in ((1, 2), (2, 4)):
        project = distiller.projections["hidden"]
        expected = expected + losses.hidden_state_loss(
            ours.hidden_states[m], theirs.hidden_states[g], mask, projection=project
        )
        scores = (
            losses.attention_scores(seen.queries[layer - 1], seen.keys[layer - 1])
            for seen, layer in ((ours, m), (theirs, g))
        )
        expected = expected + losses.attention_score_loss(*scores, mask)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert all(parameter.grad is not None for parameter in distiller.projections.parameters())
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_minilm_compares_the_last_layers_alone():
    student, teacher = _pair("Model")
    batch, mask = _batch(labels=False), _batch()["attention_mask"]
    ours, theirs = (capture(model, batch, needs=INSIDE) for model in (student, teacher))

    def pair(seen, letters, layer):
        states = {"q": seen.queries, "k": seen.keys, "v": seen.values}
        return tuple(states[letter][layer] for letter in letters)

    for method, letters, settings, layer in (
        ("minilm", ("qk", "vv"), {}, -1),
        ("minilm-v2", ("qq", "kk", "vv"), {"relation_heads": 8, "teacher_layer": 3}, 2),
    ):  # fmt: skip
        loss = Distiller(student, teacher, _phase(method, "transfer", **settings)).eval()(**batch)["loss"]
        expected = 0.0
        for both in letters:
            pairs = [pair(ours, both, -1), pair(theirs, both, layer)]
            if settings:
                pairs = [tuple(losses.split_heads(states, 8) for states in each) for each in pairs]
            expected = expected + losses.relation_loss(*pairs, mask)
        torch.testing.assert_close(loss, expected)


def test_mobileberts_phases_switch_on_layer_after_layer():
    layers = Layers(student=3, teacher=6)
    phases = METHODS["mobilebert"].phases(layers)
    assert [phase.name for phase in phases] == ["layer-1", "layer-2", "layer-3", "words", "task"]
    student, teacher = _pair("Model")
    values = [
        Distiller(student, teacher, _phase("mobilebert", f"layer-{depth}"))
        .eval()(**_batch(labels=False))["loss"]
        .item()
        for depth in (1, 2)
    ]
    assert 0 < values[0] < values[1]


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if not (row.towers or row.own_vocabulary)])
def test_a_batchs_loss_is_the_mean_of_its_rows_alone(method):
    """So neither padding nor the number of processes changes it: for every phase of every method."""
    for phase in METHODS[method].phases(
        Layers(student=2, teacher=4), {"relation_heads": 8} if method == "minilm-v2" else {}
    ):
        head = "ForMaskedLM" if phase.reads_tokens else "ForSequenceClassification"
        student, teacher = _pair(head)
        if phase.trains == "exits":
            student = randomise(
                hf_albert_plus.AlbertPlusForSequenceClassification(small_config(num_hidden_layers=2, exit_layers=[1]))
            )
        distiller = Distiller(student, teacher, phase).eval()
        batch = _batch()
        if phase.reads_tokens:
            batch["labels"] = torch.where(batch["input_ids"] % 3 == 0, batch["input_ids"], -100)
            batch["labels"][batch["attention_mask"] == 0] = -100
        alone = []
        for row in range(3):
            real = int(batch["attention_mask"][row].sum())
            alone.append(
                distiller(
                    **{k: v[row : row + 1, :real] if v.dim() == 2 else v[row : row + 1] for k, v in batch.items()}
                )["loss"]
            )
        torch.testing.assert_close(distiller(**batch)["loss"], torch.stack(alone).mean(), atol=1e-5, rtol=1e-4)


def test_exits_alone_are_trained_without_dropout_and_start_no_gradient_elsewhere():
    config = small_config(num_hidden_layers=3, exit_layers=[1, 2], classifier_dropout_prob=0.5)
    student = randomise(hf_albert_plus.AlbertPlusForSequenceClassification(config))
    distiller = Distiller(student, None, _phase("fastbert", "exits")).train()
    first, second = (distiller(**_batch())["loss"] for _ in range(2))
    assert first.item() == second.item()
    first.backward()
    trained = {name for name, parameter in student.named_parameters() if parameter.grad is not None}
    assert trained
    assert all(name.startswith("exits.") for name in trained)


def test_an_exit_reads_what_its_layer_gives_and_no_padding():
    model = randomise(
        hf_albert_plus.AlbertPlusForSequenceClassification(small_config(exit_layers=[1, 3], num_labels=3))
    )
    batch = _batch(labels=False)
    output = model(**batch, output_exits=True)
    assert [tuple(logits.shape) for logits in output.exit_logits] == [(3, 3), (3, 3)]
    assert "exit_logits" not in model(**batch)
    cut = {name: tensor[2:, :7] for name, tensor in batch.items()}
    torch.testing.assert_close(
        model(**cut, output_exits=True).exit_logits[1], output.exit_logits[1][2:], atol=1e-6, rtol=1e-5
    )
    torch.testing.assert_close(model.exits[1](output.hidden_states[3], batch["attention_mask"]), output.exit_logits[1])


@pytest.mark.parametrize("layers", [[0], [4], [2, 1], [1, 1]])
def test_exit_layers_that_cannot_be_are_refused(layers):
    with pytest.raises(StrictDataclassError, match="exit_layers must be rising layers from 1 to 3"):
        small_config(exit_layers=layers)


def test_exits_stay_out_of_a_conversion_and_of_an_export(tmp_path):
    import onnx

    from hf_albert_plus.conversion import from_albert_plus
    from tests.conftest import exported_graph

    model = hf_albert_plus.AlbertPlusForSequenceClassification(small_config(embedding_size=32, exit_layers=[2]))
    with pytest.raises(InvalidInput, match=r"exit_layers \[2\]"):
        from_albert_plus(model, to="bert")
    exported_graph(tmp_path / "model.onnx", exit_layers=[2])
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert [output.name for output in graph.output] == ["logits"]
    assert not [tensor.name for tensor in graph.initializer if "exit" in tensor.name]


# The teacher's logits


def test_cached_logits_belong_to_their_rows(teachers, data_dir, tmp_path):
    """Each row has the teacher's own answer to it, in any order; and the loss is that of the teacher run beside."""
    teacher = AutoModelForSequenceClassification.from_pretrained(teachers / "sst2").eval()
    tokenizer = AutoTokenizer.from_pretrained(teachers / "sst2")
    rows = task_rows(str(data_dir), get_task("sst2"), tokenizer, max_length=32)
    cached = with_teacher_logits(rows, teacher, rows, tokenizer, directory=tmp_path / "logits", use_bf16=False)
    shuffled = cached.shuffle(seed=3).select(range(20))
    collator = Collator(tokenizer)
    batch = collator(shuffled.to_list())
    known = batch.pop(TEACHER_LOGITS)
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    torch.testing.assert_close(known, teacher(**inputs).logits, atol=1e-5, rtol=1e-4)
    student = randomise(hf_albert_plus.AlbertPlusForSequenceClassification(small_config(vocab_size=len(tokenizer))))
    distiller = Distiller(student, teacher, _phase("kd", "task")).eval()
    torch.testing.assert_close(
        distiller(**batch, **{TEACHER_LOGITS: known})["loss"], distiller(**batch)["loss"], atol=1e-5, rtol=1e-4
    )
    before = (tmp_path / "logits" / "0.safetensors").stat().st_mtime_ns
    with_teacher_logits(rows, teacher, rows, tokenizer, directory=tmp_path / "logits", use_bf16=False)
    assert (tmp_path / "logits" / "0.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("method", "phase", "cached"),
    [("kd", "task", True), ("tinybert", "prediction", True), ("twinbert", "task", True), ("pkd", "task", False),
     ("distilbert", "general", False), ("labels", "task", False)],
)  # fmt: skip
def test_logits_are_cached_only_where_the_teacher_sees_the_same_and_nothing_else_is_read(method, phase, cached):
    assert _phase(method, phase).caches_logits == cached


# Masked words


def test_masks_are_what_bert_says_by_count(encoder_dir):
    """15 % of the tokens that are no specials; of them 80 % the mask token, 10 % a random one, 10 % themselves."""
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    masking = DynamicMasking(tokenizer, seed=0)
    generator = torch.Generator().manual_seed(0)
    words = [i for i in range(len(tokenizer)) if i not in tokenizer.all_special_ids]
    masked = replaced = kept = 0
    for _ in range(400):
        picked = torch.randint(len(words), (50,), generator=generator).tolist()
        ids = [tokenizer.cls_token_id, *(words[i] for i in picked), tokenizer.sep_token_id]
        seen, labels = masking(ids)
        assert labels[0] == labels[-1] == -100
        assert all(label in (-100, true) for label, true in zip(labels, ids, strict=True))
        assert all(new == true for new, label, true in zip(seen, labels, ids, strict=True) if label == -100)
        places = [i for i, label in enumerate(labels) if label != -100]
        masked += len(places)
        replaced += sum(seen[i] == tokenizer.mask_token_id for i in places)
        kept += sum(seen[i] == ids[i] for i in places)
    # Four standard deviations of binomial counts.
    assert masked / 20000 == pytest.approx(0.15, abs=4 * (0.15 * 0.85 / 20000) ** 0.5)
    assert replaced / masked == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / masked) ** 0.5 + 0.1 / len(tokenizer))
    assert kept / masked == pytest.approx(0.1, abs=4 * (0.1 * 0.9 / masked) ** 0.5 + 0.1 / len(tokenizer))


def test_a_mask_belongs_to_its_row_and_epoch(encoder_dir):
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    masking, again = (DynamicMasking(tokenizer, seed=1) for _ in range(2))
    rows = [list(range(10, 60)), list(range(30, 80))]
    first = [masking(ids) for ids in rows]
    assert first == [again(ids) for ids in reversed(rows)][::-1]
    assert first != [DynamicMasking(tokenizer, seed=2)(ids) for ids in rows]
    masking.draws.epoch = 1
    assert first != [masking(ids) for ids in rows]


def test_rare_words_are_masked_more_often(encoder_dir):
    """count^-0.7: a word seen 100 times is masked 25 times less often than one seen once."""
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    weights = smoothed_weights([[20] * 100, [21]], vocabulary=len(tokenizer), smoothing=0.7)
    assert weights[20] == pytest.approx(100**-0.7)
    assert weights[21] == weights[22] == 1
    masking = DynamicMasking(tokenizer, seed=0, weights=weights)
    ids = [20] * 20 + [21] * 20
    counts = torch.zeros(2)
    for epoch in range(600):
        masking.draws.epoch = epoch
        labels = torch.tensor(masking(ids)[1])
        counts += torch.tensor([(labels == 20).sum(), (labels == 21).sum()])
    assert counts.sum() / (600 * 40) == pytest.approx(0.15, abs=0.01)
    assert counts[0] / counts[1] == pytest.approx(100**-0.7, rel=0.25)


def test_text_is_cut_into_blocks_within_documents(text, encoder_dir):
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    rows = text_rows(text, tokenizer, max_length=32)
    documents = text.read_text().strip().split("\n\n")
    whole = [tokenizer(document.replace("\n", " "), add_special_tokens=False)["input_ids"] for document in documents]
    assert [i for ids in whole for i in ids] == [i for ids in rows["input_ids"] for i in ids[1:-1]]
    assert len(rows) == sum(-(-len(ids) // 30) for ids in whole)
    assert {(ids[0], ids[-1]) for ids in rows["input_ids"]} == {(tokenizer.cls_token_id, tokenizer.sep_token_id)}


# The stage


# A student of its own vocabulary is a directory with a tokenizer: `test_dual_training` makes one.
@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if not row.own_vocabulary])
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
        assert student.config.exit_layers == ([1] if method == "fastbert" else None)
        assert list(student.config.id2label.values()) == list(get_task("mrpc").labels)
    assert student.config.attention_map == (0, 0)
    assert not list((tmp_path / "student").rglob("checkpoint*"))


@pytest.mark.parametrize("method", ["kd", "tinybert"])
def test_regression_follows_the_teachers_number(method, teachers, data_dir, tmp_path):
    _distill(teachers / "stsb", tmp_path / "student", method, task="stsb", data=data_dir)
    student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "student")
    assert (student.config.num_labels, student.config.problem_type) == (1, "regression")


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
    process = subprocess.Popen([*start, *words(tmp_path / "killed")], stderr=subprocess.DEVNULL, env=environment)
    checkpoints = tmp_path / "killed.partial" / "checkpoints"
    # In its second epoch, which has 24 steps.
    while not list(checkpoints.glob("1-words/checkpoint-3?/complete")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (checkpoints / "0-layer-1.json").is_file()
    invoke(*words(tmp_path / "whole"))
    invoke(*words(tmp_path / "killed"))
    record = read_record(tmp_path / "killed")
    assert record.result["phases"]["words"]["resumed_at_step"] > 24
    whole, again = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)


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


# What users do wrong


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
        (["--method", "minilm-v2", "--set", "relation_heads=7"], "relation"),
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


def test_a_student_directory_of_another_family_is_refused(teachers, encoder_dir, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match="must be an ALBERT-plus model, got .* of the family bert; convert it first"):
        _distill(teachers / "sst2", tmp_path / "s", "kd", data=data_dir, student=str(encoder_dir))


def test_the_list_of_methods_is_the_table(capsys):
    told = json.loads(invoke("distill", "--list-methods", "--json").stdout)
    assert list(told) == list(METHODS)
    assert told["distilbert"]["phases"]["general"] == "5·soft_words + 2·masked_words + 1·cosine"
    assert told["pkd"]["defaults"]["patient_weight"] == 500
    text = invoke("distill", "--list-methods").stdout
    for row in told.values():
        assert row["source"] in text
