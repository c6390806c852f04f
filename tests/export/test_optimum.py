"""`optimum-cli export albert-plus`, as optimum itself finds and runs it."""

import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput

pytest.importorskip("optimum.commands.optimum_cli")

from optimum.commands.register.register_albert_plus import TASKS, check_task, export_model


def _optimum(*words):
    program = Path(sys.executable).with_name("optimum-cli")
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_command_exports(classifier_dir, tmp_path):
    done = _optimum(
        "export", "albert-plus", "-m", classifier_dir, "--to", "onnx", "--to", "onnx-int8", tmp_path / "out"
    )
    assert done.returncode == 0, done.stderr
    assert "onnx-int8 onnx/model_int8.onnx" in done.stdout
    inputs = AutoTokenizer.from_pretrained(tmp_path / "out")(["the film is superb ."], return_tensors="pt")
    assert Engine.load(tmp_path / "out", "onnx-int8")(**inputs).logits.shape == (1, 2)


@pytest.mark.slow
def test_the_command_is_in_optimums_help_and_its_errors_are_one_line(classifier_dir, tmp_path):
    assert "albert-plus" in _optimum("export", "--help").stdout
    done = _optimum("export", "albert-plus", "-m", classifier_dir, "--task", "fill-mask", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("error: --task must be text-classification for this model")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("task", "head"),
    [
        ("text-classification", "ForSequenceClassification"),
        ("sequence-classification", "ForSequenceClassification"),
        ("zero-shot-classification", "ForSequenceClassification"),
        ("fill-mask", "ForMaskedLM"),
        ("masked-lm", "ForMaskedLM"),
        ("feature-extraction", "Model"),
        ("default", "Model"),
        ("pretraining", "ForPreTraining"),
        ("token-classification", "ForTokenClassification"),
        ("question-answering", "ForQuestionAnswering"),
        ("multiple-choice", "ForMultipleChoice"),
        ("auto", "ForMaskedLM"),
    ],
)
def test_tasks_and_synonyms(task, head):
    check_task(task, head=head)


@pytest.mark.parametrize(
    ("task", "head", "words"),
    [
        (
            "text-clasification",
            "Model",
            "must be one of an encoder's, got 'text-clasification'; did you mean 'text-clas",
        ),
        ("text-generation", "Model", "one of an encoder's"),
        ("masked-lm", "ForSequenceClassification", "must be text-classification for this model"),
    ],
)
def test_wrong_tasks(task, head, words):
    with pytest.raises(InvalidInput, match=words):
        check_task(task, head=head)


def test_optimum_knows_every_task_that_we_name():
    from optimum.exporters.tasks import TasksManager

    for task in TASKS.values():
        assert task in TasksManager._LIBRARY_TO_TASKS_TO_MODEL_LOADER_MAP["transformers"]


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInput, match="--model must be a model directory"):
        export_model(str(tmp_path / "no"), task="auto", to=["onnx"], output=tmp_path / "out")
