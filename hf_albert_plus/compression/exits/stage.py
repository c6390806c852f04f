"""The stage that finds an exit threshold: a classifier with exits in, the same with those worth keeping and a threshold in its config
out."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ...checkpoints import copy_model, load_classifier
from ...configuration_albert_plus import AlbertPlusConfig
from ...engines.classifier_config import label_thresholds_of
from ...errors import InvalidInput
from ...modeling_albert_plus import AlbertPlusForSequenceClassification
from ...records.files import write_text
from ...records.record import Record, carried_calibrations, carried_record, parent
from ...records.stage import run_stage
from ...tasks.splits import data_parent
from ...tasks.task import Task, check_answers_texts
from ...tasks.task_file import write_task
from ..settings import CalibrateSettings
from .criteria import TOLERANCE, Criterion, taken_exits, tolerance_for
from .cross_fitting import CrossFitted, Score
from .exit_answers import AnswersOfExits
from .prices import prices_of_exits
from .thresholds import SearchRule


@dataclass(frozen=True)
class ExitScores:
    """How rows fare with a threshold.

    Attributes:
        rows: how many there are.
        score: points with the threshold.
        full_score: points of the last layer alone.
        average_layers: layers that a row runs in the mean.
        leave_at: layer -> rows that leave after it.
    """

    rows: int
    score: float
    full_score: float
    average_layers: float
    leave_at: dict[str, int]


@dataclass(frozen=True)
class CalibrationResult:
    """What came out of a calibration, as a record has it.

    Attributes:
        threshold: the best threshold.
        layers: the layers that the kept exits and the classifier follow.
        cost: layers that a row runs in the mean, looks at exits included.
        found_on: how the rows fare, which the threshold was chosen on.
        cross_fitted: how they fare with thresholds that were chosen on other rows.
        exit_costs: layer -> what a look at its exit costs, in layers.
        score_of_exit: layer -> points of its exit alone, over all rows.
        curve: threshold, layers in the mean and points of every threshold that was tried.
        parameters: of the classifier with all exits.
        trained: the record of the training behind the model, None without one.
        calibrated: those of what was found on rows for it before.
    """

    threshold: float
    layers: list[int]
    cost: float
    found_on: ExitScores
    cross_fitted: CrossFitted
    exit_costs: dict[str, float]
    score_of_exit: dict[str, float]
    curve: list[list[float]]
    parameters: int
    trained: dict[str, Any] | None
    calibrated: list[dict[str, Any]]


def calibrate_exits(
    model: Path,
    *,
    data: str,
    task: Task,
    output: Path,
    settings: CalibrateSettings,
    score: Score,
    plot: Callable[[dict[str, Any]], str] | None = None,
    answered: AnswersOfExits | None = None,
) -> Record:
    """Finds the exits and the threshold with which rows have least to run and lose at most `max_drop` points, also rows that a threshold
    was not found on. Drops the other exits, and puts the threshold into the config, where exports with exits read it.

    Args:
        model: directory of a classifier with exits.
        score: points of the task's first metric.
        plot: what came out -> an SVG of score against depth, written beside the model.
        answered: what the exits say of the rows, from another calibration of this model that differs in what may be lost alone; it learns what
            this one asks for.

    Raises:
        InvalidInput: no exits, a criterion that the task has no numbers for, or too few rows.
    """
    check_answers_texts(task, what="calibrate", repair="export the model as it is: exits are of classifiers of texts")
    if task.is_regression and settings.criterion != "patience":
        raise InvalidInput(
            f"--criterion must be patience for {task.name}, which has no classes to be sure of",
            got=settings.criterion,
            repair="use --criterion patience",
        )

    def work(directory: Path) -> dict[str, Any]:
        classifier: Any = load_classifier(model, option="--model", task=task).eval()
        config = classifier.config
        if not getattr(config, "exit_layers", None):
            raise InvalidInput(
                "--model must be a classifier with exits",
                got=f"{model} without",
                repair="train some: albert-plus distill --method fastbert --phases exits --student DIR …",
            )
        asked = answered if answered is not None else AnswersOfExits()
        logits_JBC, labels, length = asked.of(classifier, model, data=data, task=task, settings=settings)
        layers = [*config.exit_layers, config.num_hidden_layers]
        prices = prices_of_exits(config, length=length, flat=settings.exit_cost)
        tolerance = tolerance_for(logits_JBC[-1]) if task.has_own_unit else TOLERANCE
        rule = SearchRule(
            layers,
            settings.criterion,
            prices,
            keep_exits=settings.keep_exits,
            label_thresholds=label_thresholds_of(config),
            tolerance=tolerance,
        )
        fit = asked.search(rule, score=score, settings=settings).fit(settings.max_drop)
        calibration = fit.calibration
        copy_model(model, directory)
        if len(calibration.kept) < len(config.exit_layers):
            _drop_exits(directory, keep=calibration.kept)
        criterion = calibration.best.criterion
        written = AlbertPlusConfig.from_pretrained(directory)
        written.exit_criterion, written.exit_threshold = settings.criterion, criterion.threshold
        written.exit_tolerance = tolerance
        written.save_pretrained(directory)
        write_task(directory, task, max_length=settings.max_length)
        alone = {str(layer): score(logits_BC, labels) for layer, logits_BC in zip(layers, logits_JBC, strict=True)}
        logits_JBC, layers = logits_JBC[[*calibration.kept, -1]], [*(written.exit_layers or []), layers[-1]]
        result = asdict(
            CalibrationResult(
                threshold=criterion.threshold,
                layers=layers,
                cost=round(calibration.best.cost, 4),
                found_on=_judge(logits_JBC, criterion, layers, score, labels),
                cross_fitted=fit.cross_fitted,
                exit_costs={str(layer): price for layer, price in zip(config.exit_layers, prices, strict=True)},
                score_of_exit=alone,
                curve=[[each.criterion.threshold, each.average_layers, each.score] for each in calibration.trials],
                parameters=classifier.num_parameters(),
                trained=carried_record(model),
                calibrated=carried_calibrations(model),
            )
        )
        if plot is not None:
            write_text(directory / "score_by_depth.svg", plot(result))
        return result

    return run_stage(
        "calibrate",
        output,
        settings={**task.settings, **asdict(settings)},
        parents={"model": parent(model), "data": data_parent(data, task)},
        work=work,
    )


def _drop_exits(directory: Path, *, keep: Sequence[int]) -> None:
    """Drops all exits but these from the weights of a model directory, which keep their type."""
    model = AlbertPlusForSequenceClassification.from_pretrained(directory, dtype="auto")
    model.config.exit_layers = [(model.config.exit_layers or [])[exit_] for exit_ in keep]
    if len(model.exits):  # the model's own classifier at every depth is none of them
        model.exits = torch.nn.ModuleList(model.exits[exit_] for exit_ in keep)
    model.save_pretrained(directory)


def _judge(
    logits_JBC: torch.Tensor, criterion: Criterion, layers: list[int], score: Score, labels: list[Any]
) -> ExitScores:
    """Score and depth with the threshold, and without."""
    taken_B = taken_exits(logits_JBC, criterion)
    return ExitScores(
        rows=len(labels),
        score=score(logits_JBC[taken_B, torch.arange(len(labels))], labels),
        full_score=score(logits_JBC[-1], labels),
        average_layers=round(float(torch.tensor(layers, dtype=torch.float64)[taken_B].mean()), 4),
        leave_at={str(layer): int((taken_B == exit_).sum()) for exit_, layer in enumerate(layers)},
    )
