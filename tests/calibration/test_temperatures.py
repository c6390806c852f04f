"""Temperatures: the one that labels were drawn at comes back, a grid finds none better, and the model that is written has it everywhere."""

import json

import numpy
import pytest
import torch
from scipy.special import expit, log_softmax, softmax
from transformers import AutoTokenizer

from hf_albert_plus.calibration.settings import CalibrateScoresSettings
from hf_albert_plus.calibration.stage import calibrate_scores
from hf_albert_plus.calibration.temperatures import (
    cross_fit,
    fit_temperature,
    moved_threshold,
    negative_log_likelihood,
)
from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.classifier_config import label_thresholds_of
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.text_answers import AnswerRule
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.export.stage import export
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.own_data import find_task
from tests.support.command_line import invoke
from tests.support.kinds import SEVERAL, THRESHOLDS, make_classifier
from tests.support.small_models import randomise, small_config

NAMES = ("a", "b", "c", "d")
ONE = AnswerRule(NAMES, "single_label_classification")
MANY = AnswerRule(NAMES, SEVERAL, (0.5,) * 4)
WORDS = ("good", "bad", "film", "cast", "plot", "not", "no", "great")


def drawn(rule, *, temperature, rows=20_000):
    """Logits, and labels that are drawn from what they say at a temperature."""
    random = numpy.random.default_rng(0)
    logits = random.normal(size=(rows, 4)) * 3
    if rule.has_several:
        return logits, (random.random((rows, 4)) < expit(logits / temperature)).astype(int)
    shares = softmax(logits / temperature, axis=1).cumsum(axis=1)
    return logits, (random.random((rows, 1)) > shares).sum(axis=1).clip(max=3)


@pytest.mark.parametrize("rule", [ONE, MANY], ids=["one", "several"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_temperature_that_labels_were_drawn_at_comes_back(rule, temperature):
    logits, labels = drawn(rule, temperature=temperature)
    assert fit_temperature(logits, labels, rule) == pytest.approx(temperature, rel=0.03)
    found = cross_fit(logits, labels, rule, folds=5, seed=0)
    assert found.of_folds == pytest.approx([temperature] * 5, rel=0.05)
    assert found.after.ece < 0.012
    if temperature != 1:
        assert found.before.ece > 0.05
        assert found.after.nll < found.before.nll


@pytest.mark.parametrize("rule", [ONE, MANY], ids=["one", "several"])
def test_no_other_temperature_is_more_likely(rule):
    logits, labels = drawn(rule, temperature=1.7, rows=300)
    found = fit_temperature(logits, labels, rule)

    def by_hand(temperature):
        if rule.has_several:
            said = expit(logits / temperature)
            return -numpy.where(labels == 1, numpy.log(said), numpy.log(expit(-logits / temperature))).mean()
        return -log_softmax(logits / temperature, axis=1)[numpy.arange(300), labels].mean()

    assert negative_log_likelihood(logits / found, labels, rule) == pytest.approx(by_hand(found))
    assert by_hand(found) <= min(by_hand(temperature) for temperature in numpy.linspace(0.5, 8, 300)) + 1e-9


def test_labels_without_a_signal_gain_nothing_on_other_rows():
    """Twelve rows: the temperature of all of them fits them better than those of the folds fit the rows left out."""
    logits, labels = drawn(ONE, temperature=1.0, rows=12)
    found = cross_fit(logits, labels, ONE, folds=3, seed=0)
    assert negative_log_likelihood(logits / found.temperature, labels, ONE) <= found.after.nll


def test_a_moved_threshold_is_reached_by_the_same_rows():
    random = numpy.random.default_rng(1)
    for threshold, temperature in zip(random.random(50) * 0.98 + 0.01, random.random(50) * 5 + 0.1, strict=True):
        logits = random.normal(size=200) * 4
        before, after = expit(logits) >= threshold, expit(logits / temperature) >= moved_threshold(threshold, temperature)  # fmt: skip
        assert (before == after).all()
    assert moved_threshold(0.5, 3.0) == 0.5


def own_data(folder, *, several, names):
    random = numpy.random.default_rng(2)
    (folder / "my").mkdir()
    for split in ("train", "validation"):
        lines = []
        for _ in range(40):
            held = [name for name in names if random.random() < 0.4] if several else names[random.integers(len(names))]
            lines.append(json.dumps({"text": " ".join(random.choice(WORDS, size=6)), "label": held}))
        (folder / "my" / f"{split}.jsonl").write_text("\n".join(lines))
    return str(folder / "my"), find_task(str(folder / "my"), DataSettings(kind="labels" if several else "classes"))


def said_by(directory, texts):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AlbertPlusForSequenceClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        return model(**tokenizer(texts, padding=True, return_tensors="pt"), output_exits=bool(model.config.exit_layers))


TEXTS = ["good film", "bad bad cast", "no plot", "great"]


@pytest.mark.slow
def test_weights_exports_and_thresholds_have_the_temperature(tmp_path, tokenizer_dir):
    names = ("rude", "spam", "toxic")
    data, task = own_data(tmp_path, several=True, names=names)
    make_classifier(tmp_path / "model", tokenizer_dir, names=task.labels, problem_type=SEVERAL, label_thresholds=THRESHOLDS)  # fmt: skip
    settings = CalibrateScoresSettings(max_length=32, folds=4)
    record = calibrate_scores(tmp_path / "model", data=data, task=task, output=tmp_path / "out", settings=settings)
    temperature = record.result["temperatures"]["last"]["temperature"]
    before, after = (said_by(tmp_path / name, TEXTS).logits for name in ("model", "out"))
    torch.testing.assert_close(after, before / temperature, rtol=1e-4, atol=1e-5)
    moved = label_thresholds_of(load_config(tmp_path / "out", option="DIR"))
    assert moved == pytest.approx([expit(numpy.log(t / (1 - t)) / temperature) for t in THRESHOLDS])
    assert ((after.sigmoid() >= torch.tensor(moved)) == (before.sigmoid() >= torch.tensor(THRESHOLDS))).all()
    export(tmp_path / "out", to=["onnx"], output=tmp_path / "exported", settings=ExportSettings())
    engine = Engine.load(tmp_path / "exported", "onnx")
    tensors = AutoTokenizer.from_pretrained(tmp_path / "out")(TEXTS, padding=True, return_tensors="pt")
    torch.testing.assert_close(engine(**tensors).logits, after, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("head", ["branch", "pooled", "shared"])
def test_each_exit_has_its_own(tmp_path, tokenizer_dir, head):
    names = ("a", "b", "c")
    data, task = own_data(tmp_path, several=False, names=names)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    config = small_config(
        vocab_size=len(tokenizer), num_hidden_layers=3, exit_layers=[1, 2], exit_head=head, id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)}, problem_type="single_label_classification",
        exit_criterion="entropy", exit_threshold=0.3,
    )  # fmt: skip
    randomise(AlbertPlusForSequenceClassification(config)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    settings = CalibrateScoresSettings(max_length=32, folds=4)
    record = calibrate_scores(tmp_path / "model", data=data, task=task, output=tmp_path / "out", settings=settings)
    found = {name: each["temperature"] for name, each in record.result["temperatures"].items()}
    assert list(found) == (["last"] if head == "shared" else ["1", "2", "last"])
    before, after = (said_by(tmp_path / name, TEXTS) for name in ("model", "out"))
    for number, depth in enumerate(("1", "2")):
        expected = before.exit_logits[number] / found.get(depth, found["last"])
        torch.testing.assert_close(after.exit_logits[number], expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(after.logits, before.logits / found["last"], rtol=1e-4, atol=1e-5)
    assert (after.logits.argmax(-1) == before.logits.argmax(-1)).all()
    assert load_config(tmp_path / "out", option="DIR").exit_threshold is None
    assert record.result["lost_exit_threshold"]


def test_the_verb_says_what_changed(tmp_path, classifier_dir, data_dir):
    said = invoke("calibrate-scores", classifier_dir, "--data", data_dir, "--task", "sst2", "--max-length", 32, "--folds", 2, "--out", tmp_path / "out").output  # fmt: skip
    assert "ECE" in said
    assert "NLL" in said


def test_what_cannot_be_calibrated_is_refused(tmp_path, classifier_dir, data_dir, tokenizer_dir):
    from hf_albert_plus.tasks.glue import get_task

    with pytest.raises(InvalidInput, match="stsb has numbers, got number"):
        calibrate_scores(classifier_dir, data=str(data_dir), task=get_task("stsb"), output=tmp_path / "out")
    with pytest.raises(InvalidInput, match="--folds 900 need at least 1800 rows"):
        calibrate_scores(
            classifier_dir, data=str(data_dir), task=get_task("sst2"), output=tmp_path / "out",
            settings=CalibrateScoresSettings(folds=900, max_length=32),
        )  # fmt: skip
    with pytest.raises(InvalidInput, match="--folds must be from 2 to 1,000, got 1"):
        CalibrateScoresSettings(folds=1)
