"""How far answers are from a teacher's, against scipy's divergences, and on what rows."""

import numpy
import pytest
import torch
from scipy.special import expit, rel_entr, softmax
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from hf_albert_plus.search.divergence import divergence_of, measure_divergence
from hf_albert_plus.search.set_aside import set_aside
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task import Task

OWN = {"name": "t", "title": "T", "columns": ("text",), "labels": ("a", "b", "c"), "epochs": 1, "batch_size": 8}
STUDENT, TEACHER = torch.randn(2, 7, 3, generator=torch.Generator().manual_seed(0)) * 2


def test_of_classes():
    expected = rel_entr(softmax(TEACHER.numpy(), -1), softmax(STUDENT.numpy(), -1)).sum(-1).mean()
    task = Task(**OWN, metrics=("accuracy",))
    assert divergence_of(STUDENT, TEACHER, task=task) == pytest.approx(expected, rel=1e-5)


def test_of_several_labels():
    theirs, ours = expit(TEACHER.numpy()), expit(STUDENT.numpy())
    expected = (rel_entr(theirs, ours) + rel_entr(1 - theirs, 1 - ours)).mean()
    task = Task(**OWN, kind="labels", metrics=("micro_f1",))
    assert divergence_of(STUDENT, TEACHER, task=task) == pytest.approx(expected, rel=1e-5)


def test_of_numbers():
    ours, theirs = STUDENT[:, :1], TEACHER[:, :1]
    expected = numpy.square(ours.numpy() - theirs.numpy()).mean()
    assert divergence_of(ours, theirs, task=get_task("stsb")) == pytest.approx(expected, rel=1e-5)


def test_of_models_on_the_rows_set_aside(teachers, data_dir, tmp_path):
    task = get_task("sst2")
    rows, _ = set_aside(str(data_dir), task=task, output=tmp_path / "rows", seed=0)
    other = AutoModelForSequenceClassification.from_pretrained(teachers / "sst2")
    with torch.no_grad():
        other.classifier.weight.mul_(-3)
    other.save_pretrained(tmp_path / "other")
    tokenizer = AutoTokenizer.from_pretrained(teachers / "sst2")
    tokenizer.save_pretrained(tmp_path / "other")
    answered = {}
    given = {"rows": rows, "max_length": 32, "precision": "fp32", "answered": answered}
    found, _ = measure_divergence(tmp_path / "other", teachers / "sst2", **given, output=tmp_path / "a")
    texts = load_split(str(rows.data), rows.task, "validation")["sentence"][:]
    said = []
    for source in (tmp_path / "other", teachers / "sst2"):
        model = AutoModelForSequenceClassification.from_pretrained(source).eval()
        with torch.no_grad():
            said.append(torch.cat([model(**tokenizer(text, truncation=True, max_length=32, return_tensors="pt")).logits for text in texts]))  # fmt: skip
    expected = rel_entr(softmax(said[1].numpy(), -1), softmax(said[0].numpy(), -1)).sum(-1).mean()
    assert found == pytest.approx(expected, rel=1e-3)
    assert set(answered) == {teachers / "sst2"}  # asked once, whatever is compared with it
    itself, _ = measure_divergence(teachers / "sst2", teachers / "sst2", **given, output=tmp_path / "b")
    assert itself == pytest.approx(0, abs=1e-6)
