"""The stage that makes probabilities worth more: a classifier in, the same with its last layer divided by a temperature out."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import nn

from ..checkpoints import copy_model, load_classifier
from ..compression.exits.exit_answers import exit_logits
from ..engines.classifier_config import answer_rule_of
from ..errors import InvalidInput
from ..last_layers import last_layers
from ..records.files import SCHEME
from ..records.record import Record, carried_calibrations, carried_record, parent
from ..records.stage import run_stage
from ..tasks.splits import data_parent
from ..tasks.task import Task, check_no_spans
from ..tasks.task_file import write_task
from ..training.collators import collator_of, joined
from ..training.finetuning import task_rows
from ..training.row_logits import row_logits
from .settings import CalibrateScoresSettings
from .temperatures import Temperature, cross_fit, moved_threshold

# Rows of a batch of a model with exits.
_BATCH = 64
# Criteria of exits whose thresholds are of probabilities.
_OF_PROBABILITIES = ("entropy", "confidence")


@dataclass(frozen=True)
class ScoreCalibrationResult:
    """What came out of calibrating scores, as a record has it.

    Attributes:
        rows: that the temperatures were found on.
        temperatures: layer -> its temperature, an exit's or the last layer's.
        label_thresholds: of several labels, moved so that the same rows reach them; None where there are none of the model's own.
        lost_exit_threshold: whether a threshold of exits was left out, as it was one of other probabilities.
        parameters: of the classifier.
        trained: the record of the training behind the model, None without one.
        calibrated: those of what was found on rows for it before.
    """

    rows: int
    temperatures: dict[str, Temperature]
    label_thresholds: list[float] | None
    lost_exit_threshold: bool
    parameters: int
    trained: dict[str, Any] | None
    calibrated: list[dict[str, Any]]


def calibrate_scores(
    model: Path, *, data: str, task: Task, output: Path, settings: CalibrateScoresSettings | None = None
) -> Record:
    """Finds one temperature and divides the last layer's weights and bias by it, so that every export has it. What is predicted stays as
    it is. Exits that have classifiers of their own have temperatures of their own.

    Args:
        model: directory of a classifier.

    Raises:
        InvalidInput: a task with numbers, too few rows, a model that was trained for few bits, or one without a linear last layer.
    """
    chosen = settings or CalibrateScoresSettings()
    check_no_spans(task, what="calibrate-scores", repair="leave it as it is")
    if task.is_regression:
        raise InvalidInput(
            f"scores are calibrated where there are labels, and {task.name} has numbers",
            got=task.kind,
            repair="leave it as it is: a number has no probability",
        )

    def work(directory: Path) -> dict[str, Any]:
        if (model / SCHEME).is_file():
            raise InvalidInput(
                "DIR must not be trained for few bits: its last layer lies on a grid",
                got=f"{model} with {SCHEME}",
                repair="calibrate the scores of a model that was not",
            )
        classifier: Any = load_classifier(model, option="DIR", task=task).eval()
        config, rule = classifier.config, answer_rule_of(classifier.config)
        layers = _last_layers(classifier, model)
        split = chosen.split or task.judging_split
        tokenizer, rows = task_rows(model, config, data=data, task=task, max_length=chosen.max_length, split=split)
        rows = rows.select(numpy.argsort(rows["length"][:], kind="stable"))
        logits_JNC = _logits(classifier, rows, tokenizer, task, count=len(layers))
        answers = [joined(logits_NC, rows, task) for logits_NC in logits_JNC]
        found = {
            name: cross_fit(logits_NC, labels.astype(int), rule, folds=chosen.folds, seed=chosen.seed)
            for name, (logits_NC, labels) in zip(layers, answers, strict=True)
        }
        copy_model(model, directory)
        for name, layer in layers.items():
            _divide(layer, found[name].temperature)
        last = list(found.values())[-1].temperature
        thresholds = getattr(config, "label_thresholds", None)
        if thresholds is not None:
            config.label_thresholds = [moved_threshold(threshold, last) for threshold in thresholds]
        loses = getattr(config, "exit_threshold", None) is not None and config.exit_criterion in _OF_PROBABILITIES
        if loses:
            config.exit_threshold = None
        classifier.to("cpu").save_pretrained(directory)
        write_task(directory, task, max_length=chosen.max_length)
        return asdict(
            ScoreCalibrationResult(
                rows=len(answers[0][1]),
                temperatures=found,
                label_thresholds=None if thresholds is None else config.label_thresholds,
                lost_exit_threshold=loses,
                parameters=classifier.num_parameters(),
                trained=carried_record(model),
                calibrated=carried_calibrations(model),
            )
        )

    return run_stage(
        "calibrate-scores",
        output,
        settings={**task.settings, **asdict(chosen)},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
    )


def _last_layers(classifier: Any, model: Path) -> dict[str, nn.Linear]:
    """As `last_layers`.

    Raises:
        InvalidInput: a classifier that ends in no linear layer.
    """
    layers = last_layers(classifier)
    if layers is None:
        raise InvalidInput(
            "DIR must be a classifier that ends in a linear layer, `classifier` or `classifier.out_proj`",
            got=f"{type(classifier).__name__} in {model}",
            repair="distil it into a student: albert-plus distill",
        )
    return layers


def _logits(classifier: Any, rows: Any, tokenizer: Any, task: Task, *, count: int) -> numpy.ndarray:
    """What every layer that gives logits says of every row, or of every tagged word, `[J, N, C]`."""
    if count > 1:
        bare = rows.remove_columns(["labels", "length"])
        exits_JNC: numpy.ndarray = exit_logits(classifier, bare, tokenizer, _BATCH).numpy()
        return exits_JNC
    logits_NC: numpy.ndarray = row_logits(classifier, rows.to_list(), collator_of(task, tokenizer)).numpy()
    return logits_NC[None]


@torch.no_grad()
def _divide(layer: nn.Linear, temperature: float) -> None:
    layer.weight.div_(temperature)
    if layer.bias is not None:
        layer.bias.div_(temperature)
