"""The threshold of a graph with exits in int8: found again on what the graph's own parts say, of the rows that `albert-plus calibrate` reads.

n rows, S tokens, H hidden, C classes, J exits with the last layer's classifier.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy
import torch

from hf_albert_plus.compression.exits.criteria import Criterion
from hf_albert_plus.compression.exits.cross_fitting import CrossFitted, Score, fit_threshold
from hf_albert_plus.compression.exits.prices import prices_of_exits
from hf_albert_plus.compression.exits.thresholds import SearchRule
from hf_albert_plus.compression.settings import CalibrateSettings
from hf_albert_plus.engines.batching import pad_rows
from hf_albert_plus.engines.classifier_config import label_thresholds_of
from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.exits.exit_parts import steps_of, weights_of_branch
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.model_inputs import longest_input
from hf_albert_plus.records.progress import bar
from hf_albert_plus.records.record import RECORD, open_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task import Task

_BATCH = 32
Arrays = dict[str, numpy.ndarray]


@dataclass(frozen=True)
class ThresholdOrigin:
    """Where the threshold of a graph comes from.

    Attributes:
        threshold_found_on: whose logits it was found on.
        threshold_rows: how many rows there were; None where they are not known here.
        cross_fitted: how thresholds fare on rows that they were not found on; None where it was not measured here.
    """

    threshold_found_on: str
    threshold_rows: int | None = None
    cross_fitted: CrossFitted | None = None


OF_CONFIG = ThresholdOrigin("the model's logits in torch, by albert-plus calibrate")


@dataclass(frozen=True)
class Recalibration:
    """What a threshold is found again with: a task's rows, and the settings that the model was calibrated with."""

    data: str
    task: Task
    settings: CalibrateSettings
    score: Score

    @classmethod
    def of(cls, source: Path, settings: ExportSettings, score: Score | None) -> "Recalibration | None":
        """That of an export with a task, None without one.

        Raises:
            InvalidInput: a record whose settings are none of `albert-plus calibrate`.
        """
        if settings.data is None or settings.task is None or score is None:
            return None
        return cls(settings.data, get_task(settings.task), _calibrated_with(source, get_task(settings.task)), score)


def _calibrated_with(source: Path, task: Task) -> CalibrateSettings:
    """The settings in the record of a model that was calibrated on a task, the defaults without such a record."""
    record = open_record(source) if (source / RECORD).is_file() else None
    if record is None or record.stage != "calibrate" or record.settings.get("task") != task.name:
        return CalibrateSettings()
    known = {field.name: record.settings[field.name] for field in fields(CalibrateSettings) if field.name in record.settings}  # fmt: skip
    try:
        return CalibrateSettings(**known)
    except TypeError:
        raise InvalidInput(
            "the record of a calibrated model must hold the settings of albert-plus calibrate",
            got=f"{source / RECORD} with others",
            repair="calibrate the model again",
        ) from None


def find_threshold(
    recalibration: Recalibration, model: Any, tokenizer: Any, parts: Sequence[Path], *, form: str
) -> tuple[Criterion, ThresholdOrigin]:
    """The threshold of a graph by its own logits, with the exits that it has.

    Args:
        parts: the start and what follows in this form, in int8.
        form: `loop` or `segments`.
    """
    config, settings, task = model.config, recalibration.settings, recalibration.task
    split = settings.split or task.judging_split
    longest = min(settings.max_length, longest_input(config))
    encoded = encode(load_split(recalibration.data, task, split), task, tokenizer, max_length=longest)
    lengths = encoded["length"][:]
    prices = prices_of_exits(config, length=fmean(lengths), flat=settings.exit_cost)
    layers = [*config.exit_layers, config.num_hidden_layers]
    fit = fit_threshold(
        logits_of_parts(model, tokenizer, parts, encoded.to_list(), form=form),
        labels=encoded["labels"][:],
        rule=SearchRule(
            layers,
            config.exit_criterion,
            prices,
            keep_exits=True,
            label_thresholds=label_thresholds_of(config),
            tolerance=config.exit_tolerance,
        ),
        score=recalibration.score,
        max_drop=settings.max_drop,
        folds=settings.folds,
        seed=settings.seed,
    )
    origin = ThresholdOrigin("the int8 logits of this graph", len(lengths), fit.cross_fitted)
    return fit.calibration.best.criterion, origin


def logits_of_parts(
    model: Any, tokenizer: Any, parts: Sequence[Path], rows: Sequence[dict[str, Any]], *, form: str
) -> torch.Tensor:
    """What every exit and the last layer of a graph say of every row, `[J, B, C]`, part by part.

    Args:
        rows: of token ids.
    """
    says = _loop(model, parts) if form == "loop" else _segments(parts)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]["input_ids"]))
    said = []
    with bar(total=len(rows), description="every exit of every row in int8") as progress:
        for start in range(0, len(order), _BATCH):
            padded = pad_rows([rows[row] for row in order[start : start + _BATCH]], tokenizer)
            said.append(numpy.stack(list(says({name: tensor.numpy() for name, tensor in padded.items()}))))
            progress.update(len(padded["input_ids"]))
    sorted_JBC = torch.from_numpy(numpy.concatenate(said, axis=1))
    return sorted_JBC[:, torch.tensor(order).argsort()]


# From the inputs of a batch to what each exit says of it, `[n, C]`.
_Says = Callable[[Arrays], Iterator[numpy.ndarray]]


def _segments(parts: Sequence[Path]) -> _Says:
    start, *segments = map(_runner, parts)

    def says(given: Arrays) -> Iterator[numpy.ndarray]:
        hidden = start(given)["hidden"]
        for segment in segments:
            outputs = segment({"hidden": hidden, **_mask(given)})
            # The last segment gives no hidden states: nobody goes on.
            hidden = outputs.get("next_hidden", hidden)
            yield outputs["said"]

    return says


def _loop(model: Any, parts: Sequence[Path]) -> _Says:
    start, step, *heads = map(_runner, parts)
    count = steps_of(model.config).count
    classifiers = [*(exit_.classifier for exit_ in model.exits if not heads), model.classifier]

    def says(given: Arrays) -> Iterator[numpy.ndarray]:
        hidden = start(given)["hidden"]
        for number in range(count):
            outputs = step({"hidden": hidden, **_mask(given)})
            hidden = outputs["next_hidden"]
            if not heads:
                with torch.no_grad():
                    head = classifiers[min(number, len(classifiers) - 1)]
                    yield head(torch.from_numpy(outputs["pooled"])).numpy()
                continue
            branch, classifier = heads
            weights = weights_of_branch(model, number)
            part = branch if weights else classifier
            yield part({"hidden": hidden, **_mask(given), **weights})["said"]

    return says


def _mask(given: Arrays) -> Arrays:
    return {"attention_mask": given["attention_mask"]}


def _runner(part: Path) -> Callable[[Arrays], Arrays]:
    """A part as a function of its inputs by name; it reads of them what it takes."""
    session = open_session(part)
    inputs, outputs = ([port.name for port in ports] for ports in (session.get_inputs(), session.get_outputs()))

    def run(given: Arrays) -> Arrays:
        return dict(zip(outputs, session.run(outputs, {name: given[name] for name in inputs}), strict=True))

    return run
