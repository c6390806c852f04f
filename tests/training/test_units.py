"""Numbers in standard units: the same training whatever unit they are in, and answers in that unit."""

import json

import numpy
import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    MobileBertConfig,
    MobileBertForSequenceClassification,
)

from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.training.units import Units
from tests.support.command_line import invoke
from tests.support.small_models import SMALL, pair_inputs, randomise, small_config

MEAN, DEVIATION = 250_000.0, 40_000.0
TEXTS = [f"a {'large' if i % 3 else 'small'} house {i % 7}" for i in range(64)]
STANDARD = numpy.random.default_rng(0).normal(size=64) + numpy.array([1.0 if i % 3 else -1.0 for i in range(64)])
STANDARD = (STANDARD - STANDARD.mean()) / STANDARD.std()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The same numbers in two units, trained on and judged by the same rows."""
    folder = tmp_path_factory.mktemp("numbers")
    for name, values in (("standard", STANDARD), ("prices", STANDARD * DEVIATION + MEAN)):
        (folder / name).mkdir()
        for split in ("train", "validation"):
            rows = [{"text": text, "price": value} for text, value in zip(TEXTS, values.tolist(), strict=True)]
            (folder / name / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def answers(directory):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        return model(**tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False)).logits[:, 0].double().numpy()  # fmt: skip


def learned(verb, *options, data, out):
    for name in ("standard", "prices"):
        given = [str(option).replace("UNIT", name) for option in options]
        invoke(verb, *given, "--data", data / name, "--epochs", 2, "--max-length", 16, "--precision", "fp32", "--learning-rate", 2e-3, "--out", out / name)  # fmt: skip
    standard, prices = answers(out / "standard"), answers(out / "prices")
    numpy.testing.assert_allclose((prices - MEAN) / DEVIATION, standard, atol=5e-3)
    return prices


def test_there_and_back_by_hand():
    """(w·x + b - mean) / deviation, and w·x + b again; in every exit that has its own classifier too."""
    config = small_config(num_labels=1, problem_type="regression", exit_layers=[1, 3], exit_head="pooled")
    model, inputs = randomise(AlbertPlusForSequenceClassification(config)), pair_inputs(120)
    units = Units(3.0, 0.5)
    with torch.no_grad():
        before = model(**inputs, output_exits=True)
        units.enter(model)
        inside = model(**inputs, output_exits=True)
        units.leave(model)
        after = model(**inputs, output_exits=True)
    for was, meant, is_ in zip(*((o.logits, *o.exit_logits) for o in (before, inside, after)), strict=True):
        torch.testing.assert_close(meant, (was - 3) / 0.5)
        torch.testing.assert_close(is_, was)


def test_what_has_no_units():
    model = AlbertPlusForSequenceClassification(small_config(num_labels=1))
    assert Units.of([1.0, 2.0], get_task("stsb"), model) is None
    assert Units.of([0, 1], get_task("sst2"), model) is None


@pytest.mark.slow
def test_a_training_is_the_same_in_every_unit(data, tmp_path, encoder_dir, classifier_dir):
    """From an encoder; from there on, which answers in that unit already; into a student, whose teacher does."""
    task = find_task(str(data / "prices"))
    found = Units.of(
        (STANDARD * DEVIATION + MEAN).tolist(), task, AlbertPlusForSequenceClassification(small_config(num_labels=1))
    )
    assert (found.mean, found.deviation) == (pytest.approx(MEAN), pytest.approx(DEVIATION))
    prices = learned("finetune", "--model", encoder_dir, data=data, out=tmp_path / "teacher")
    assert abs(prices.mean() - MEAN) < DEVIATION
    assert numpy.corrcoef(prices, STANDARD)[0, 1] > 0.3
    learned("finetune", "--model", tmp_path / "teacher" / "UNIT", data=data, out=tmp_path / "again")
    for method in ("kd", "pkd"):  # logits computed before, and beside the student
        learned(
            "distill", "--teacher", tmp_path / "teacher" / "UNIT", "--method", method, data=data, out=tmp_path / method
        )
    narrow = ["--set", "hidden_size=16", "--set", "num_attention_heads=4"]  # whose classifier is none of the teacher's
    learned(
        "distill",
        "--teacher",
        tmp_path / "teacher" / "UNIT",
        "--method",
        "kd",
        *narrow,
        data=data,
        out=tmp_path / "narrow",
    )


def test_a_classifier_without_a_linear_end_says_so(capfd, data):
    model = MobileBertForSequenceClassification(
        MobileBertConfig(**SMALL, embedding_size=16, intra_bottleneck_size=16, num_labels=1)
    )
    model.classifier = torch.nn.Sequential(model.classifier)
    assert Units.of([1.0, 2.0], find_task(str(data / "prices")), model) is None
    assert "ends in no linear layer: its numbers are learned in their own unit" in capfd.readouterr().err
