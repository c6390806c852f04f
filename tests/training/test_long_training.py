"""Training on texts in windows: the rows that are learned, what is fitted on answers to whole texts, and students of other words."""

import json
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import torch
from transformers import AutoTokenizer

from hf_albert_plus.calibration.settings import CalibrateScoresSettings
from hf_albert_plus.calibration.stage import calibrate_scores
from hf_albert_plus.calibration.temperatures import cross_fit
from hf_albert_plus.compression.exits.exit_answers import exit_logits
from hf_albert_plus.compression.pruning import prune
from hf_albert_plus.compression.settings import PruneSettings
from hf_albert_plus.distillation.checks import check_task
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phase_rows import TEACHER_LOGITS, task_rows
from hf_albert_plus.distillation.settings import DistilSettings, StudentSettings
from hf_albert_plus.distillation.stage import distill
from hf_albert_plus.distillation.teachers import with_teacher_answers
from hf_albert_plus.engines.classifier_config import answer_rule_of
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification, AlbertPlusForTokenClassification
from hf_albert_plus.tasks.choosing import choose_task
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.joined_answers import text_logits, text_numbers
from hf_albert_plus.tasks.long_texts import LongTexts
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task_file import read_task, write_task
from hf_albert_plus.text.letter_tokenizer import letter_tokenizer
from hf_albert_plus.training.collators import TextCollator
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.label_thresholds import fit_label_thresholds, set_label_thresholds
from hf_albert_plus.training.row_logits import row_logits
from hf_albert_plus.training.settings import TrainSettings
from tests.support.command_line import invoke
from tests.support.kinds import KINDS, NAMES, make_classifier
from tests.support.small_models import randomise, small_config
from tests.support.tagged import tagged_sentences, write_tagged

SIZE = 12
SETTINGS = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-3, max_length=SIZE, precision="fp32")
WORDS = ["a", "good", "film", "with", "bad", "plot", "and", "the", "cast", "is", "not", "great", "at", "all"]
WINDOWS = LongTexts("windows")


def texts(count):
    """Of 1 to 40 words."""
    draw = numpy.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, size=1 + (7 * number) % 40)) for number in range(count)]


def write(path, labels, count=48):
    """Rows with the labels of their numbers."""
    rows = [{"text": text, **labels(number)} for number, text in enumerate(texts(count))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("classes") / "mine.jsonl", lambda number: {"label": NAMES[number % 3]})


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    labels = lambda number: {name: (number >> place) & 1 for place, name in enumerate(NAMES)}  # noqa: E731
    return write(tmp_path_factory.mktemp("several") / "mine.jsonl", labels)


@pytest.mark.slow
def test_each_window_is_a_row_of_the_training(encoder_dir, data, tmp_path, capfd):
    task = choose_task(data, settings=DataSettings(long="windows"), trains=True)
    record = finetune(str(encoder_dir), data=data, task=task, output=tmp_path / "model", settings=SETTINGS)
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    train = load_split(data, task, "train")
    rows = encode(train, task, tokenizer, max_length=SIZE)
    assert record.result["steps"] == -(-len(rows) // SETTINGS.batch_size)
    assert len(rows) > len(train)
    assert record.result["data"]["windows"][0] == pytest.approx(len(rows) / len(train), abs=1e-3)
    assert "they are read in windows" in capfd.readouterr().err
    carried = read_task(tmp_path / "model")
    assert (carried.long, carried.max_length) == (WINDOWS, SIZE)


def test_thresholds_are_fitted_to_answers_of_texts(several, tokenizer_dir, tmp_path):
    model = make_classifier(tmp_path, tokenizer_dir, **KINDS["several"])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    task = replace(choose_task(several), long=WINDOWS)
    rows = encode(load_split(several, task, "train"), task, tokenizer, max_length=SIZE)
    set_label_thresholds(model, rows, tokenizer=tokenizer, task=task)
    largest, held = {}, {}
    for row in rows:
        number = row["answering"][0]
        with torch.no_grad():
            logits = model(torch.tensor([row["input_ids"]])).logits[0].numpy()
        largest[number] = numpy.maximum(largest.get(number, -numpy.inf), logits)
        held[number] = row["labels"]
    probabilities = 1 / (1 + numpy.exp(-numpy.array(list(largest.values()), dtype=numpy.float64)))
    expected = fit_label_thresholds(probabilities, numpy.array(list(held.values())))
    assert model.config.label_thresholds == pytest.approx(expected, abs=1e-4)


def test_scores_are_calibrated_on_answers_to_texts(data, tokenizer_dir, tmp_path):
    model = make_classifier(tmp_path / "model", tokenizer_dir, **KINDS["one of three"])
    task = choose_task(data, settings=DataSettings(long="windows"), model=tmp_path / "model")
    write_task(tmp_path / "model", task, max_length=SIZE)
    settings = CalibrateScoresSettings(split="train", folds=3, max_length=SIZE)
    record = calibrate_scores(
        tmp_path / "model", data=data, task=task, output=tmp_path / "calibrated", settings=settings
    )
    tokenizer, split = AutoTokenizer.from_pretrained(tmp_path / "model"), load_split(data, task, "train")
    rows = encode(split, task, tokenizer, max_length=SIZE)
    logits = row_logits(model, rows.to_list(), TextCollator(tokenizer)).numpy()
    numbers = text_numbers(rows["answering"][:])
    joined = text_logits(logits, numbers, has_several=False)
    expected = cross_fit(joined, numpy.array(split["label"][:]), answer_rule_of(model.config), folds=3, seed=42)
    (found,) = record.result["temperatures"].values()
    assert record.result["rows"] == len(split) < len(rows)
    assert found["temperature"] == pytest.approx(expected.temperature, rel=1e-3)
    assert read_task(tmp_path / "calibrated").long == WINDOWS


def test_each_window_has_the_soft_labels_of_its_text(data, tokenizer_dir, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    lines = [json.loads(line) for line in Path(data).read_text(encoding="utf-8").splitlines()]
    for number, row in enumerate(lines):
        row["said"] = [float(number), -1.5, 3.0]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in lines), encoding="utf-8")
    (tmp_path / "validation.jsonl").write_text(file.read_text())
    file.rename(tmp_path / "train.jsonl")
    task = replace(
        choose_task(str(tmp_path), settings=DataSettings(text_column="text", label_column=("label",))), long=WINDOWS
    )
    rows = task_rows(str(tmp_path), task, tokenizer, max_length=SIZE, soft_labels="said")
    assert [row[0] for row in rows[TEACHER_LOGITS]] == text_numbers(rows["answering"][:])
    assert len(rows) > len(lines)


def test_a_teacher_of_other_windows_says_what_it_says_of_the_text(data, tokenizer_dir, tmp_path):
    """A teacher of the same words answers each window; one of other words the text."""
    model = make_classifier(tmp_path, tokenizer_dir, **KINDS["one of three"])
    task = replace(choose_task(data), long=WINDOWS)
    split, tokenizer = load_split(data, task, "train"), AutoTokenizer.from_pretrained(tmp_path)
    theirs = encode(split, task, tokenizer, max_length=SIZE)
    alone = row_logits(model, theirs.to_list(), TextCollator(tokenizer)).numpy()
    same = with_teacher_answers(theirs, model, theirs, tokenizer, directory=tmp_path / "same", use_bf16=False)
    numpy.testing.assert_allclose(same[TEACHER_LOGITS], alone, atol=1e-4)
    letters = encode(split, task, letter_tokenizer(), max_length=SIZE)
    assert len(letters) > len(theirs)
    other = with_teacher_answers(letters, model, theirs, tokenizer, directory=tmp_path / "other", use_bf16=False)
    joined = text_logits(alone, text_numbers(theirs["answering"][:]), has_several=False)
    numpy.testing.assert_allclose(other[TEACHER_LOGITS], joined[text_numbers(letters["answering"][:])], atol=1e-4)


@pytest.mark.slow
def test_the_command_line_chooses_and_eval_follows(encoder_dir, data, tmp_path):
    model, options = (
        tmp_path / "model",
        ["--data", data, "--epochs", "0.2", "--max-length", SIZE, "--precision", "fp32"],
    )
    invoke("finetune", "--model", encoder_dir, *options, "--long", "windows", "--window-overlap", 2, "--out", model)
    assert read_task(model).long == LongTexts("windows", 2)
    said = invoke("eval", model, "--data", data, "--json", tmp_path / "scores.json")
    assert "windows" in said.output
    document = json.loads((tmp_path / "scores.json").read_text())
    (run,) = document["rows"][0]["runs"]
    assert (document["max_length"], document["own_task"]["long"]["way"]) == (SIZE, "windows")
    assert run["windows"]["most"] > run["windows"]["mean"] > 1
    assert len(run["predictions"]) == document["rows"][0]["examples"]
    invoke("eval", model, "--data", data, "--long", "cut", "--json", tmp_path / "cut.json")
    assert "windows" not in json.loads((tmp_path / "cut.json").read_text())["rows"][0]["runs"][0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--long", "windows", "--window-overlap", "9"], r"at most half of --max-length \(12\), got 9"),
        (["--window-overlap", "2"], "add --long windows"),
        (["--long", "slide"], "one of cut, head-tail, windows, got slide"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_written(encoder_dir, data, tmp_path, options, words):
    with pytest.raises(InvalidInput, match=words):
        invoke(
            "finetune",
            "--model",
            encoder_dir,
            "--data",
            data,
            "--max-length",
            SIZE,
            *options,
            "--out",
            tmp_path / "model",
        )
    assert not (tmp_path / "model").exists()


def test_two_towers_do_not_read_windows():
    with pytest.raises(InvalidInput, match="use --long cut"):
        check_task(METHODS["twinbert"], replace(get_task("mrpc"), long=WINDOWS), ())


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    sentences = tagged_sentences(40)
    joined = [(one[0] + two[0] + three[0], one[1] + two[1] + three[1]) for one, two, three in zip(sentences, sentences[1:], sentences[2:], strict=False)]  # fmt: skip
    return str(write_tagged(tmp_path_factory.mktemp("tagged") / "my.jsonl", joined))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "tags"])
def test_pruning_and_distillation_read_the_same_windows(data, tagged, tokenizer_dir, tmp_path, kind):
    source = data if kind == "classes" else tagged
    task = choose_task(source, settings=DataSettings(long="windows"), trains=True)
    model, tokenizer = tmp_path / "model", AutoTokenizer.from_pretrained(tokenizer_dir)
    names = {"id2label": dict(enumerate(task.labels)), "label2id": {name: i for i, name in enumerate(task.labels)}}
    made = AlbertPlusForTokenClassification if kind == "tags" else AlbertPlusForSequenceClassification
    randomise(made(small_config(vocab_size=len(tokenizer), **names))).save_pretrained(model)
    tokenizer.save_pretrained(model)
    rows = len(encode(load_split(source, task, "train"), task, tokenizer, max_length=SIZE))
    settings = PruneSettings(epochs=0.2, batch_size=8, max_length=SIZE, heads=0.25, columns=0.5, multiple_of=8, examples=16, depth=2, precision="fp32")  # fmt: skip
    prune(str(model), data=source, task=task, output=tmp_path / "pruned", settings=settings)
    assert read_task(tmp_path / "pruned").long == WINDOWS
    quick, method = replace(SETTINGS, epochs=1), DistilSettings("kd-hidden", StudentSettings("half"), epochs=1.0, learning_rate=1e-3)  # fmt: skip
    record = distill(str(model), data=source, task=task, output=tmp_path / "student", settings=quick, method=method)
    assert rows > len(load_split(source, task, "train"))
    assert [phase["steps"] for phase in record.result["phases"].values()] == [-(-rows // 8)]
    assert (read_task(tmp_path / "student").long, read_task(tmp_path / "student").max_length) == (WINDOWS, SIZE)


def test_exits_say_something_of_each_window(data, tokenizer_dir):
    tokenizer, task = AutoTokenizer.from_pretrained(tokenizer_dir), replace(choose_task(data), long=WINDOWS)
    rows = encode(load_split(data, task, "train"), task, tokenizer, max_length=SIZE)
    model = randomise(AlbertPlusForSequenceClassification(small_config(vocab_size=len(tokenizer), num_labels=3, exit_layers=[2])))  # fmt: skip
    logits_JBC = exit_logits(model, rows.remove_columns(["labels", "length"]), tokenizer, 8)
    assert logits_JBC.shape == (2, len(rows), 3)
