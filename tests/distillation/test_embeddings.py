"""Students of sentence encoders: the losses against numpy, sentences of a text, the stage, the directory that it makes, and what users do wrong."""

import copy
import json

import numpy
import pytest
import torch
from datasets import Dataset
from transformers import AutoConfig, AutoModel, AutoTokenizer, TrainingArguments

import hf_albert_plus
from hf_albert_plus.checkpoints import copy_model
from hf_albert_plus.conversion.sentence_modules import read_modules
from hf_albert_plus.distillation import losses, run, teachers
from hf_albert_plus.distillation.sentence_rows import sentence_texts, sentences
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.engines.sentence_files import SentenceForm
from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.record import read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.loop import TrainingResult
from hf_albert_plus.training.settings import TrainSettings
from tests.support.command_line import invoke
from tests.support.kinds import TEXTS

QUICK = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")


@pytest.fixture
def teacher(sentence_dir):
    return sentence_dir


def _distill(teacher, out, *, text, student="half", overrides=(), settings=QUICK, values=(), **options):
    shape = StudentSettings(student, tuple(dict(overrides).items()), options.pop("initialise", None))
    given = {"data": None, "task": None, **{name: options.pop(name) for name in ("data", "task") if name in options}}
    how = DistilSettings("embeddings", shape, values, text=text, **{"epochs": 1.0, "learning_rate": 1e-3, **options})
    return distill(str(teacher), output=out, settings=settings, method=how, **given)


@pytest.fixture(scope="module")
def student(sentence_dir, text, tmp_path_factory):
    out = tmp_path_factory.mktemp("vectors") / "student"
    return out, _distill(sentence_dir, out, text=text, values=(("matryoshka_dims", "8,16"),))


# The losses


def _vectors(rows, width, seed):
    return numpy.random.default_rng(seed).normal(size=(rows, width))


def _cosines(vectors):
    return numpy.array([[a @ b / numpy.sqrt(a @ a * (b @ b)) for b in vectors] for a in vectors])


def test_the_losses_against_numpy():
    student, teacher, other = _vectors(5, 6, 0), _vectors(5, 6, 1), _vectors(5, 9, 2)
    tensors = [torch.tensor(each) for each in (student, teacher, other)]
    errors = [sum((a - b) ** 2) for a, b in zip(student, teacher, strict=True)]
    assert float(losses.vector_error_loss(*tensors[:2])) == pytest.approx(sum(errors) / 5)
    angles = [a @ b / numpy.linalg.norm(a) / numpy.linalg.norm(b) for a, b in zip(student, teacher, strict=True)]
    assert float(losses.vector_cosine_loss(*tensors[:2])) == pytest.approx(1 - sum(angles) / 5)
    expected = 0
    for kept in (6, 2, 4):
        differences = (_cosines(student[:, :kept]) - _cosines(other)) ** 2
        expected += sum(differences[i, j] for i in range(5) for j in range(5) if i != j) / 20
    assert float(losses.vector_similarity_loss(tensors[0], tensors[2], prefixes=(2, 4))) == pytest.approx(expected)


def test_similarities_worked_by_hand():
    """Cosines 0, 1/√2 and 1/√2 of three texts, where the teacher has 1 everywhere."""
    student = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    teacher = torch.tensor([[1.0], [5.0], [2.0]])
    expected = (1 + 2 * (1 - 0.5**0.5) ** 2) / 3
    assert float(losses.vector_similarity_loss(student, teacher)) == pytest.approx(expected)
    assert float(losses.vector_similarity_loss(student, 7 * student)) == pytest.approx(0, abs=1e-12)


def test_a_text_alone_has_no_similarities_and_a_gradient_of_zero():
    student = torch.ones(1, 4, requires_grad=True)
    loss = losses.vector_similarity_loss(student, torch.ones(1, 2), prefixes=(2,))
    loss.backward()
    assert float(loss.detach()) == 0
    assert torch.equal(student.grad, torch.zeros(1, 4))


def test_vectors_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="agree in W .vector., got 4 and 5"):
        losses.vector_error_loss(torch.ones(2, 4), torch.ones(2, 5))
    with pytest.raises(InvalidInput, match="agree in B"):
        losses.vector_similarity_loss(torch.ones(2, 4), torch.ones(3, 4))
    with pytest.raises(InvalidInput, match="from 1 to the vector's 4 numbers, got 5"):
        losses.vector_similarity_loss(torch.ones(2, 4), torch.ones(2, 4), prefixes=(2, 5))


# The texts


def test_sentences_of_a_line():
    line = 'It cost 3.5 million. "Too much!" she said (in May). 40 were left... Éric, e.g. her brother, agreed?'
    assert sentences(line) == [
        "It cost 3.5 million.", '"Too much!" she said (in May).', "40 were left... Éric, e.g. her brother, agreed?",
    ]  # fmt: skip
    assert sentences("no end") == ["no end"]


def test_every_sentence_is_a_text_once_and_long_ones_are_several(encoder_dir, tmp_path):
    file, tokenizer = tmp_path / "text.txt", AutoTokenizer.from_pretrained(encoder_dir)
    long = " ".join(TEXTS[0].split() * 12)
    file.write_text(f"The cat sat. The dog ran.\n\nThe dog ran.\n{long}\n")
    texts = sentence_texts(file, tokenizer, max_length=16, cut="sentences")
    assert texts[:2] == ["The cat sat.", "The dog ran."]
    assert len(texts) == len(set(texts)) > 3
    assert all(len(tokenizer(text)["input_ids"]) <= 16 for text in texts)
    assert set(" ".join(texts[2:]).split()) == set(long.split())
    lines = sentence_texts(file, tokenizer, max_length=64, cut="lines")
    assert lines[:2] == ["The cat sat. The dog ran.", "The dog ran."]


# The stage


@pytest.mark.slow
def test_training_moves_a_random_student_towards_its_teacher(teacher, text, tmp_path):
    """Not its losses alone: cosines of the vectors that the two directories give, of texts that neither learned from."""
    expected = TextEncoder(teacher, "torch").encode(TEXTS, convert_to_tensor=True)
    near = []
    for epochs in (0.2, 12.0):
        out = tmp_path / str(epochs)
        _distill(teacher, out, text=text, epochs=epochs, initialise="random", settings=QUICK)
        found = TextEncoder(out, "torch").encode(TEXTS, convert_to_tensor=True)
        near.append(float((found * expected).sum(dim=-1).mean()))
    assert near[1] > near[0] + 0.2


def test_the_rows_have_the_teachers_vectors(teacher, text, tmp_path, monkeypatch):
    """Of each sentence, as the teacher gives it, under the student's own tokens."""
    given = []

    def watch(distiller, *, rows, collator, settings, **more):
        given.append((distiller, rows, settings))
        return TrainingResult(1, len(rows), 0.0, 0.0, "fp32", 1, 0)

    monkeypatch.setattr(run, "train", watch)
    _distill(teacher, tmp_path / "out", text=text)
    ((distiller, rows, settings),) = given
    assert distiller.teacher is None
    assert settings.learning_rate == 1e-3
    assert type(distiller.student.encoder).__name__ == "AlbertPlusModel"
    tokenizer, model = AutoTokenizer.from_pretrained(teacher), AutoModel.from_pretrained(teacher).eval()
    wanted = sentence_texts(text, tokenizer, max_length=32, cut="sentences")
    assert len(rows) == len(wanted)
    for place in (0, len(wanted) // 2, len(wanted) - 1):
        tokens = tokenizer(wanted[place], truncation=True, max_length=32, return_tensors="pt")
        assert rows[place]["input_ids"] == tokens["input_ids"][0].tolist()
        with torch.no_grad():
            mean = model(**tokens).last_hidden_state[0].mean(0)
        torch.testing.assert_close(torch.tensor(rows[place]["teacher_vectors"]), mean / mean.norm(), atol=1e-5, rtol=0)


@pytest.mark.slow
def test_a_run_that_goes_on_does_not_ask_the_teacher_again(teacher, text, tmp_path, monkeypatch):
    def stop(*given, **named):
        raise RuntimeError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(run, "train", stop)
        with pytest.raises(RuntimeError, match="stopped"):
            _distill(teacher, tmp_path / "out", text=text, epochs=0.2)
    monkeypatch.setattr(teachers, "row_logits", stop)
    record = _distill(teacher, tmp_path / "out", text=text, epochs=0.2)
    assert record.result["phases"]["vectors"]["steps"] > 0


@pytest.mark.slow
def test_the_student_is_a_sentence_encoder_of_its_own(student):
    out, record = student
    assert list(record.result["phases"]) == ["vectors"]
    assert set(record.result["phases"]["vectors"]["losses"]) == {"vector_error", "vector_cosine", "vector_similarity"}
    config = json.loads((out / "config.json").read_text())
    assert config["matryoshka_dims"] == [8, 16]
    assert (config["pooling"], config["pooler"], config["architectures"]) == ("mean", "none", ["AlbertPlusModel"])
    assert read_modules(out, option="DIR") == SentenceForm("mean", normalize=True)
    model, report = hf_albert_plus.AlbertPlusModel.from_pretrained(out, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert record.result["parameters"] == model.num_parameters()
    assert read_record(out).settings["method"] == "embeddings"


@pytest.mark.filterwarnings("ignore")  # of the library, on import
def test_the_library_and_the_engines_give_the_same_vectors(student, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    out, _ = student
    expected = library.SentenceTransformer(str(out), device="cpu", trust_remote_code=True).encode(TEXTS)
    numpy.testing.assert_allclose(TextEncoder(out, "torch").encode(TEXTS), expected, atol=1e-5, rtol=0)
    assert expected.shape == (len(TEXTS), 32)


def test_a_copy_keeps_the_modules_and_their_folders(student, tmp_path):
    """As an export without vectors makes one: its modules.json would name folders that are not there."""
    out, _ = student
    copy_model(out, tmp_path)
    assert read_modules(tmp_path, option="DIR") == SentenceForm("mean", normalize=True)
    found = TextEncoder(tmp_path, "torch").encode(TEXTS)
    numpy.testing.assert_allclose(found, TextEncoder(out, "torch").encode(TEXTS), atol=1e-6, rtol=0)


@pytest.mark.slow
def test_a_student_of_another_width_keeps_its_own_and_loses_the_map(teacher, text, tmp_path):
    out = tmp_path / "narrow"
    shape = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24}
    _distill(teacher, out, text=text, overrides=shape, epochs=0.5)
    assert TextEncoder(out, "torch").encode(TEXTS).shape == (len(TEXTS), 16)
    assert {path.name for path in out.glob("[0-9]_*")} == {"1_Pooling", "2_Normalize"}


@pytest.mark.slow
def test_a_teacher_is_read_as_it_was_trained_or_as_one_says(encoder_dir, text, tmp_path):
    """One without a modules.json is told, and its vectors keep their lengths."""
    _distill(encoder_dir, tmp_path / "out", text=text, values=(("pooling", "cls"),), epochs=0.2)
    assert read_modules(tmp_path / "out", option="DIR") == SentenceForm("first", normalize=False)
    assert hf_albert_plus.AlbertPlusModel.from_pretrained(tmp_path / "out").config.pooling == "first"


@pytest.mark.slow
def test_the_command_line_takes_one_prefix_or_several(teacher, text, tmp_path):
    words = ["--batch-size", "16", "--max-length", "32", "--precision", "fp32", "--epochs", "0.1", "--threads", "1"]
    for dims, expected in (("8", [8]), ("8,16", [8, 16])):
        out = tmp_path / dims
        invoke("distill", "--method", "embeddings", "--teacher", teacher, "--text", text, "--set", f"matryoshka_dims={dims}", *words, "--out", out)  # fmt: skip
        assert json.loads((out / "config.json").read_text())["matryoshka_dims"] == expected


# What users do wrong


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"matryoshka_dims": "16,8"}, "ascending numbers with commas, got '16,8'"),
        ({"matryoshka_dims": "8,x"}, "ascending numbers"),
        ({"matryoshka_dims": "8,32"}, "shorter than the student's vectors of 32 numbers, got 32; use numbers below 32"),
        ({"matryoshka_dims": "8", "similarity_weight": 0.0}, "must learn the similarities of texts"),
        ({"cut": "words"}, "--set cut must be one of sentences, lines"),
        ({"pooling": "max"}, "--set pooling must be one of teacher, mean, cls"),
        ({"pooling": "cls"}, "for a teacher without a modules.json, got --set pooling=cls"),
        ({"squared_error_weight": 0.0, "cosine_weight": 0.0, "similarity_weight": 0.0}, "must have a loss with weight"),
    ],
)
def test_settings_that_cannot_be_are_refused(teacher, text, tmp_path, values, words):
    with pytest.raises(InvalidInput, match=words):
        _distill(teacher, tmp_path / "out", text=text, values=tuple(values.items()))
    assert not (tmp_path / "out").exists()


def test_another_width_without_similarities_is_refused(teacher, text, tmp_path):
    """All that was learned would be thrown away with the map."""
    shape = {"hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 24}
    with pytest.raises(
        InvalidInput, match="the map to the teacher's space is not kept, got 16 numbers for the teacher's 32"
    ):
        _distill(teacher, tmp_path / "out", text=text, overrides=shape, values=(("similarity_weight", 0.0),))


def test_what_is_no_text_of_a_sentence_encoder_is_refused(teacher, encoder_dir, text, data_dir, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InvalidInput, match="from --text alone, got no --text; add --text FILE"):
        _distill(teacher, out, text=None)
    with pytest.raises(InvalidInput, match="from --text alone, got --data"):
        _distill(teacher, out, text=text, data=str(data_dir), task=get_task("sst2"))
    with pytest.raises(InvalidInput, match="from --text alone, got --general-teacher"):
        _distill(teacher, out, text=text, general_teacher=str(encoder_dir))
    with pytest.raises(
        InvalidInput, match="with a modules.json that says how it makes vectors, got .*--set pooling=mean"
    ):
        _distill(encoder_dir, out, text=text)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(InvalidInput, match="--text must hold text"):
        _distill(teacher, out, text=tmp_path / "empty.txt")


def test_a_teacher_with_more_modules_is_refused(teacher, text, tmp_path):
    modules = json.loads((teacher / "modules.json").read_text())
    dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    other = tmp_path / "other"
    other.mkdir()
    for path in teacher.iterdir():
        if path.is_file():
            (other / path.name).write_bytes(path.read_bytes())
    (other / "1_Pooling").mkdir()
    (other / "1_Pooling" / "config.json").write_bytes((teacher / "1_Pooling" / "config.json").read_bytes())
    (other / "modules.json").write_text(json.dumps([*modules, dense]))
    with pytest.raises(InvalidInput, match="must be the mean of the tokens or the first one.*got other modules in"):
        _distill(other, tmp_path / "out", text=text)


# The trainer for scripts of one's own


def _arguments(out, **given):
    common = {
        "per_device_train_batch_size": 8, "learning_rate": 1e-3, "logging_steps": 1, "save_strategy": "no", "use_cpu": True,
        "disable_tqdm": True, "report_to": "none", "lr_scheduler_type": "constant", "seed": 3,
    }  # fmt: skip
    return TrainingArguments(str(out), **{**common, **given})


def _rows(directory, texts):
    return Dataset.from_dict(dict(AutoTokenizer.from_pretrained(directory)(texts, truncation=True, max_length=32)))


def _random_student(teacher, **fields):
    config = AutoConfig.from_pretrained(teacher)
    shape = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 64}
    torch.manual_seed(1)
    return hf_albert_plus.AlbertPlusModel(hf_albert_plus.AlbertPlusConfig(
        **{**shape, "num_hidden_layers": 2, "vocab_size": config.vocab_size, "pooler": "none", "hidden_dropout_prob": 0.0, **fields}
    ))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("width", [32, 16])
def test_the_trainers_loss_of_a_batch_is_the_stages(teacher, text, tmp_path, monkeypatch, width):
    seen = {}

    def stop(distiller, *, rows, collator, **options):
        batch = collator([rows[place] for place in range(8)])
        with torch.no_grad():
            seen["loss"] = float(distiller(**batch)["loss"])
        seen["terms"], seen["distiller"] = distiller.take_terms(), copy.deepcopy(distiller)
        raise RuntimeError("stopped")

    monkeypatch.setattr(run, "train", stop)
    shape = {"hidden_size": width, "num_attention_heads": 4, "hidden_dropout_prob": 0.0}
    values = (("matryoshka_dims", "4,8"),)
    with pytest.raises(RuntimeError, match="stopped"):
        _distill(teacher, tmp_path / "stage", text=text, overrides=shape, values=values)
    texts = sentence_texts(text, AutoTokenizer.from_pretrained(teacher), max_length=32, cut="sentences")[:8]
    trainer = hf_albert_plus.DistillationTrainer(
        seen["distiller"].student.encoder, _arguments(tmp_path / "own", max_steps=1), teacher=AutoModel.from_pretrained(teacher),
        method="embeddings", settings=dict(values), projections={"vectors": seen["distiller"].projections["vectors"]},
        train_dataset=_rows(teacher, texts), processing_class=AutoTokenizer.from_pretrained(teacher),
    )  # fmt: skip
    assert trainer.evaluate(_rows(teacher, texts))["eval_loss"] == pytest.approx(seen["loss"], rel=1e-4)
    trainer.train()
    entry = next(entry for entry in trainer.state.log_history if "loss" in entry)
    assert entry["loss"] == pytest.approx(seen["loss"], rel=1e-4)
    assert {name: entry[name] for name in seen["terms"]} == pytest.approx(seen["terms"], rel=1e-4)


@pytest.mark.slow
def test_the_trainer_makes_a_sentence_encoder_and_goes_on_with_it(teacher, tmp_path):
    """Its checkpoints are students, which hold no teacher and no wrapper."""
    tokenizer, student = AutoTokenizer.from_pretrained(teacher), _random_student(teacher)

    def make(model, **given):
        return hf_albert_plus.DistillationTrainer(
            model, _arguments(tmp_path / "run", save_strategy="steps", save_steps=4, **given), teacher=AutoModel.from_pretrained(teacher),
            method="embeddings", settings={"matryoshka_dims": "8"}, train_dataset=_rows(teacher, TEXTS * 4), processing_class=tokenizer,
        )  # fmt: skip

    trainer = make(student, max_steps=8)
    trainer.train()
    losses_of = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses_of[-1] < losses_of[0]
    trainer.save_model(str(tmp_path / "out"))
    assert read_modules(tmp_path / "out", option="DIR") == SentenceForm("mean", normalize=True)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["matryoshka_dims"] == [8]
    saved = hf_albert_plus.AlbertPlusModel.from_pretrained(tmp_path / "out").state_dict()
    assert all(torch.equal(tensor, saved[name]) for name, tensor in student.state_dict().items())
    assert TextEncoder(tmp_path / "out", "torch").encode(TEXTS).shape == (len(TEXTS), 32)
    resumed = make(_random_student(teacher), max_steps=8)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-4"))
    assert resumed.state.global_step == 8
    for name, tensor in resumed.saved_module.state_dict().items():
        torch.testing.assert_close(tensor, saved[name], atol=1e-6, rtol=1e-5, msg=name)


def test_what_the_trainer_cannot_compare_is_refused(teacher, encoder_dir, tmp_path):
    def make(student, of, **settings):
        hf_albert_plus.DistillationTrainer(
            student, _arguments(tmp_path), teacher=of, method="embeddings", settings=settings
        )

    student, sentence_encoder = _random_student(teacher), AutoModel.from_pretrained(teacher)
    with pytest.raises(
        InvalidInput, match="teacher must be an encoder without a head.*got none; open it with AutoModel"
    ):
        make(student, None)
    with pytest.raises(InvalidInput, match="model must be an encoder without a head.*got AlbertPlusForMaskedLM"):
        make(hf_albert_plus.AlbertPlusForMaskedLM(student.config), sentence_encoder)
    with pytest.raises(InvalidInput, match="--teacher must be a sentence encoder.*say it with --set pooling=mean"):
        make(student, AutoModel.from_pretrained(encoder_dir))
    with pytest.raises(InvalidInput, match="got a model of no directory"):
        make(student, _random_student(teacher))
    with pytest.raises(InvalidInput, match="must learn the similarities of texts"):
        make(_random_student(teacher, hidden_size=16), sentence_encoder, similarity_weight=0.0)
    make(student, AutoModel.from_pretrained(encoder_dir), pooling="cls")
