"""Classifiers that are fine-tuned already: recognised by their labels, taken as they are, refused where they are of another task."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification

from hf_albert_plus.cli.pipeline import run_pipeline
from hf_albert_plus.cli.settings import RunSettings
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.record import read_record
from hf_albert_plus.tasks.choosing import choose_task
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.training.adoption import is_trained_for
from tests.support.command_line import invoke
from tests.support.small_models import SMALL, randomise

SHORT = ["--student-epochs", 0.5, "--max-length", 16, "--shapes", "1x8", "--seconds", 0.01, "--precision", "fp32"]  # fmt: skip


@pytest.fixture
def mine(tmp_path):
    rows = [f"{'lovely' if i % 2 else 'dull'} film {i},{'good' if i % 2 else 'bad'}" for i in range(60)]
    (tmp_path / "my.csv").write_text("\n".join(["text,label", *rows]))
    return tmp_path / "my.csv"


@pytest.fixture
def classifier(tmp_path, tokenizer_dir):
    def make(names, name="classifier"):
        tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
        labels = (
            {}
            if names is None
            else {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}
        )
        torch.manual_seed(0)
        config = BertConfig(**{**SMALL, "vocab_size": len(tokenizer)}, **(labels or {"num_labels": 2}))
        randomise(BertForSequenceClassification(config)).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        return tmp_path / name

    return make


@pytest.mark.slow
@pytest.mark.parametrize("names", [("good", "bad"), ("bad", "good"), None])
def test_a_run_takes_a_classifier_as_it_is(mine, classifier, tmp_path, capsys, short_benches, names):
    """Its weights and the order of its labels stay; labels without names get those of the data. The report has the floor beside it."""
    source = classifier(names)
    if names is None:
        said = invoke("run", "--teacher", source, "--data", mine, "--out", tmp_path / "out", *SHORT).stderr
        page = (tmp_path / "out" / "report" / "report.md").read_text()
        assert "teacher torch" in page
        assert "The floor of my, classifiers without an encoder" in page
        assert "\ntf-idf | not measured | 0.0 | not measured" in page
        assert "\nstatic | " in page
        card = (tmp_path / "out" / "report" / "cards" / "student-my.md").read_text()
        assert "tf-idf and static are classifiers without an encoder." in card
        assert "\n| tf-idf | my validation | " in card
    else:  # the stages after the student are the same
        task = choose_task(str(mine), model=source, trains=True)
        settings = RunSettings(student_epochs=0.5, max_length=16, shapes="1x8", precision="fp32")
        run_pipeline(str(source), data=str(mine), tasks=[task], out=tmp_path / "out", settings=settings, stop_after="distill")  # fmt: skip
        said = capsys.readouterr().err
    assert "a classifier of my already" in said
    assert ("have no names" in said) == (names is None)
    teacher = tmp_path / "out" / "trained" / "teacher-my"
    kept, own = (load_file(place / "model.safetensors") for place in (teacher, source))
    assert all(torch.equal(kept[name], own[name]) for name in own)
    assert read_record(teacher).stage == "adopt"
    expected = dict(enumerate(names or ("bad", "good")))
    for role in ("teacher", "student"):
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out" / "trained" / f"{role}-my")
        assert model.config.id2label == expected


def test_a_classifier_of_other_labels_is_refused_before_training(mine, classifier, tmp_path):
    source = classifier(("good", "awful"))
    with pytest.raises(
        InvalidInput, match=r"must have the labels of my, got .* with 'awful', which no training row has"
    ):
        invoke("run", "--teacher", source, "--data", mine, "--out", tmp_path / "out", *SHORT)
    with pytest.raises(InvalidInput, match=r"must have the labels of my, got .* with 'awful'"):
        invoke("distill", "--teacher", source, "--data", mine, "--out", tmp_path / "s", "--epochs", 0.1)
    with pytest.raises(InvalidInput, match=r"TEACHER must have the labels of my, got .* with 'awful'"):
        invoke("compress", source, "--data", mine, "--out", tmp_path / "out")
    with pytest.raises(InvalidInput, match="--pooling is for the new classifier"):
        invoke("run", "--teacher", classifier(("good", "bad"), "b"), "--data", mine, "--out", tmp_path / "o", "--pooling", "mean", *SHORT)  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_a_classifier_of_more_labels_is_no_teacher(mine, classifier):
    task = find_task(str(mine))
    config = BertConfig(**SMALL, num_labels=3)
    config.architectures = ["BertForSequenceClassification"]
    assert not is_trained_for(config, task, alone=True)
    config = BertConfig(**SMALL)
    config.architectures = ["BertModel"]
    assert not is_trained_for(config, task, alone=True)


@pytest.mark.parametrize(
    ("names", "alone", "trained"),
    [(("negative", "positive"), True, True), (None, True, True), (None, False, False), (("no", "yes"), True, False)],
)
def test_glues_tasks_are_recognised_by_names(names, alone, trained):
    from hf_albert_plus.tasks.glue import get_task

    labels = (
        {} if names is None else {"id2label": dict(enumerate(names)), "label2id": {n: i for i, n in enumerate(names)}}
    )
    config = BertConfig(**SMALL, **(labels or {"num_labels": 2}))
    config.architectures = ["BertForSequenceClassification"]
    assert is_trained_for(config, get_task("sst2"), alone=alone) == trained
