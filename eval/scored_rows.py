"""A row of a table of scores, of the runs that it is the median of."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy

from hf_albert_plus.eval.measured_documents import BatchingPace, ScoredRow, ScoredRun
from hf_albert_plus.eval.metrics import comparable
from hf_albert_plus.eval.predictions import as_numbers, from_numbers
from hf_albert_plus.eval.resampling import Sample, intervals
from hf_albert_plus.eval.tag_scores import unpadded
from hf_albert_plus.tasks.task import Task


def scored_row(runs: list[ScoredRun], labels: numpy.ndarray, task: Task, row_name: str, **named: str) -> ScoredRow:
    """A row with the median, the range and the interval of each metric over its runs."""
    values = {name: [run.metrics[name] for run in runs] for name in task.metrics}
    known = {name: [value for value in of_runs if value is not None] for name, of_runs in values.items()}
    defined = {name: known[name] if len(known[name]) == len(runs) else None for name in values}
    split = task.rows[row_name]
    drawn = intervals(sample(runs, as_numbers(labels, task), task), task)
    return ScoredRow(
        **named,
        task=row_name,
        split=split,
        examples=len(labels),
        glue_examples=task.sizes.get(split),
        metrics={name: None if points is None else float(numpy.median(points)) for name, points in defined.items()},
        spread={name: None if points is None else [min(points), max(points)] for name, points in defined.items()},
        intervals={name: None if defined[name] is None else drawn[name] for name in task.metrics},
        runs=runs,
    )


def pace_of(
    batching: str, seconds: Sequence[float], labels: numpy.ndarray, task: Task, *, decimals: int = 4
) -> BatchingPace:
    """How fast examples were answered, whose labels are those of `label_array`."""
    taken = float(numpy.median(seconds))
    return BatchingPace(
        batching=batching,
        sentences_per_s=round(len(labels) / taken, 1),
        words_per_s=round(sum(map(len, unpadded(labels))) / taken, 1) if task.has_tags else None,
        seconds=[round(value, decimals) for value in seconds],
    )


def sample(runs: list[ScoredRun], labels: list[Any], task: Task) -> Sample:
    """The predictions of a row's runs, for a bootstrap; with their logits where all have some."""
    logits = [run.logits for run in runs if run.logits is not None]
    held = from_numbers(labels, task)
    compared = [comparable(from_numbers(run.predictions, task), held, task) for run in runs]
    return Sample(
        numpy.array([predicted for predicted, _ in compared]),
        compared[0][1],
        numpy.array(logits) if len(logits) == len(runs) else None,
    )


def architecture_hash(config: Any) -> str:
    """Hash of the config fields that decide the computation, labels left out: the models of several tasks that share
    one are timed once."""
    ignored = {
        "id2label",
        "label2id",
        "problem_type",
        "num_labels",
        "architectures",
        "_name_or_path",
        "transformers_version",
        "dtype",
    }
    fields = {name: value for name, value in config.to_dict().items() if name not in ignored}
    return hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode()).hexdigest()
