"""The examples around transformers' Trainer, on tiny models: what they print, what they leave, and that they go on."""

import csv
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer

from hf_albert_plus.engines.text_classifier import TextClassifier
from tests.support.event_files import LOSS, curves_in
from tests.support.tagged import tagged_sentences, write_tagged

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def rows_file(tmp_path):
    """A csv of one's own; labels by their names."""
    file = tmp_path / "rows.csv"
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "label"])
        writer.writerows([("the film is superb .", "positive"), ("the plot is dull .", "negative")] * 20)
    return file


def distil(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["distillation_trainer.py", *map(str, words)])
    runpy.run_path(str(EXAMPLES / "distillation_trainer.py"), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.slow
def test_the_script_distils_ones_own_rows_and_goes_on(teachers, rows_file, tmp_path, monkeypatch, capsys):
    words = ("--teacher", teachers / "sst2", "--data", rows_file, "--layers", 2, "--out", tmp_path / "own")
    printed = distil(monkeypatch, capsys, *words, "--epochs", 1)
    assert "'eval_accuracy'" in printed
    first = AutoModelForSequenceClassification.from_pretrained(tmp_path / "own" / "student")
    assert first.config.num_hidden_layers == 2
    assert first.config.id2label == {0: "negative", 1: "positive"}
    # The same command has nothing left to train, and one with more epochs trains these alone.
    distil(monkeypatch, capsys, *words, "--epochs", 1)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path / "own" / "student")
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in first.state_dict().items())
    printed = distil(monkeypatch, capsys, *words, "--epochs", 4)
    assert "10 {'loss_soft_targets'" in printed


@pytest.mark.slow
def test_the_script_makes_rows_that_the_teacher_answers(teachers, tmp_path, monkeypatch, capsys):
    printed = distil(
        monkeypatch, capsys, "--teacher", teachers / "sst2", "--method", "tinybert", "--phase", "prediction", "--layers", 1,
        "--epochs", 0.5, "--report-to", "tensorboard", "--out", tmp_path / "own",
    )  # fmt: skip
    assert "{'loss_soft_cross_entropy'" in printed
    (run,) = (tmp_path / "own" / "checkpoints" / "runs").iterdir()
    assert [file for file in run.iterdir() if "tfevents" in file.name]


@pytest.mark.slow
@pytest.mark.pages
def test_two_processes_train_one_student(teachers, rows_file, tmp_path):
    """Each has its student and teacher; gradients are those of both batches together."""
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]  # fmt: skip
    words = [
        "--teacher",
        teachers / "sst2",
        "--data",
        rows_file,
        "--layers",
        2,
        "--epochs",
        2,
        "--out",
        tmp_path / "own",
    ]
    done = subprocess.run(
        [*launch, EXAMPLES / "distillation_trainer.py", *map(str, words)], capture_output=True, text=True, timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert (
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "own" / "student").config.num_hidden_layers == 2
    )
    # 36 rows in batches of 16 a process: two steps an epoch.
    assert (tmp_path / "own" / "checkpoints" / "checkpoint-4").is_dir()


@pytest.mark.slow
@pytest.mark.pages
def test_teacher_and_student_are_drawn_beside_each_other(encoder_dir, data_dir, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for _ in range(2):
        done = subprocess.run(
            [EXAMPLES / "report-to.sh", encoder_dir, data_dir, "out", "--task", "rte", "--max-length", "32", "--epochs", "1"],
            cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
    assert curves_in(tmp_path / "out" / "curves" / "teacher")[LOSS]
    assert curves_in(tmp_path / "out" / "curves" / "student" / "0-task")[LOSS]


def test_plain_taggers_learn_the_first_piece_of_each_word(encoder_dir, tmp_path, monkeypatch):
    """What the Trainer is given, against words that are tokenised one by one."""
    sentences = [([*words, "o'clock"], [*tags, "B-when"]) for words, tags in tagged_sentences(20)]
    data = tmp_path / "my"
    data.mkdir()
    for split in ("train", "validation"):
        write_tagged(data / f"{split}.jsonl", sentences)
    asked, train = {}, Trainer.train

    def keep(trainer):
        asked.update(rows=list(trainer.train_dataset), names=trainer.model.config.id2label)
        return train(trainer)

    monkeypatch.setattr(Trainer, "train", keep)
    words = ["plain_tagger.py", encoder_dir, data, "ner_tags", tmp_path / "plain", 1, 0.5]
    monkeypatch.setattr(sys, "argv", [*map(str, words)])
    runpy.run_path(str(EXAMPLES / "plain_tagger.py"), run_name="__main__")
    tokenizer = AutoTokenizer.from_pretrained(encoder_dir)
    assert len(tokenizer.tokenize("o'clock")) > 1
    for row, (words, tags) in zip(asked["rows"], sentences, strict=True):
        labels = [asked["names"].get(label) for label in row["labels"]]
        expected = [None]
        for word, tag in zip(words, tags, strict=True):
            expected += [tag, *[None] * (len(tokenizer.tokenize(word)) - 1)]
        assert labels == [*expected, None]
    (said,) = TextClassifier(tmp_path / "plain", "torch", cores=1, max_length=None).tag([sentences[0][0]])
    assert len(said.words) == len(sentences[0][0])
