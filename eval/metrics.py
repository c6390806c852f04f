"""GLUE's metrics in points (100 is perfect), over weighted examples: a bootstrap weighs them by how often each was drawn."""

import warnings
from typing import Any

import numpy

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.glue import Task


def predictions(logits: numpy.ndarray, task: Task) -> numpy.ndarray:
    """Logits `[examples, num_labels]` -> label ids, or the one value for regression, `[examples]`.

    Raises:
        InvalidInput: logits that are not finite.
    """
    if not numpy.isfinite(logits).all():
        raise InvalidInput(
            "logits must be finite", got="NaN or infinity", repair="train in fp32, or at a lower learning rate"
        )
    return logits[:, 0].astype(float) if task.is_regression else logits.argmax(axis=-1)


def compute_metrics(predicted: numpy.ndarray, labels: numpy.ndarray, task: Task) -> dict[str, float | None]:
    """The task's metrics, its score first.

    Args:
        predicted: label ids, or values for regression, `[examples]`.
        labels: `[examples]`.

    Returns:
        Metric name -> points. None where the metric is not defined: a correlation with constant values.

    Raises:
        InvalidInput: no examples, or not as many predictions as labels.
    """
    if len(labels) == 0:
        raise InvalidInput("a score needs examples", got="none", repair="choose a split with rows")
    if len(predicted) != len(labels):
        raise InvalidInput(
            f"predictions must answer the {len(labels)} rows of the split",
            got=len(predicted),
            repair="predict the same split of the same data",
        )
    weights = numpy.ones((1, len(labels)))
    found = {name: float(METRICS[name](predicted, labels, weights)[0]) for name in task.metrics}
    return {name: value if numpy.isfinite(value) else None for name, value in found.items()}


def accuracy(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Share of equal labels.

    Args:
        predicted, labels: `[examples]`.
        weights: how often each example counts, `[draws, examples]`; so in all metrics here.

    Returns:
        Points, `[draws]`, NaN where not defined; so in all metrics here.
    """
    return 100 * (weights @ (predicted == labels)) / weights.sum(axis=-1)


def f1(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """2·TP / (2·TP + FP + FN) of label 1; 0 where neither predictions nor labels have it."""
    hits = weights @ ((predicted == 1) & (labels == 1))
    found = weights @ (predicted == 1) + weights @ (labels == 1)
    return 100 * 2 * hits / numpy.maximum(found, 1)


def matthews(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Matthews' correlation for any number of classes (Gorodkin, 2004, eq. 8); 0 where one side has a single class."""
    classes = numpy.union1d(predicted, labels)
    total = weights.sum(axis=-1)
    predicted_of = numpy.stack([weights @ (predicted == each) for each in classes])
    labelled_of = numpy.stack([weights @ (labels == each) for each in classes])
    covariance = total * (weights @ (predicted == labels)) - (predicted_of * labelled_of).sum(axis=0)
    spread = (total**2 - (predicted_of**2).sum(axis=0)) * (total**2 - (labelled_of**2).sum(axis=0))
    return 100 * covariance / numpy.sqrt(numpy.where(spread > 0, spread, numpy.inf))


def pearson(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Pearson's correlation; not defined where either side is constant."""
    x, y = predicted - numpy.mean(predicted), labels - numpy.mean(labels)
    return _correlation(x, y, weights, constant=_constant(x, weights) | _constant(y, weights))


def spearman(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Pearson's correlation of the ranks, equal values sharing the mean of theirs."""
    constant = _constant(predicted, weights) | _constant(labels, weights)
    return _correlation(_ranks(predicted, weights), _ranks(labels, weights), weights, constant=constant)


def _correlation(x: numpy.ndarray, y: numpy.ndarray, weights: numpy.ndarray, *, constant: numpy.ndarray):
    """Correlation of `[examples]` or `[draws, examples]` under weights `[draws, examples]`."""
    total = weights.sum(axis=-1, keepdims=True)
    x = x - (weights * x).sum(axis=-1, keepdims=True) / total
    y = y - (weights * y).sum(axis=-1, keepdims=True) / total
    covariance, spread_x, spread_y = ((weights * a * b).sum(axis=-1) for a, b in ((x, y), (x, x), (y, y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return numpy.where(constant, numpy.nan, 100 * covariance / numpy.sqrt(spread_x * spread_y))


def _ranks(values: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Mean rank of each value among the drawn ones, `[draws, examples]`."""
    distinct, place = numpy.unique(values, return_inverse=True)
    counts = numpy.zeros((len(weights), len(distinct)))
    for column, group in enumerate(place):
        counts[:, group] += weights[:, column]
    below = numpy.cumsum(counts, axis=-1) - counts
    return (below + (counts + 1) / 2)[:, place]


def _constant(values: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Whether all drawn values are one, `[draws]`."""
    drawn = weights > 0
    highest = numpy.where(drawn, values, -numpy.inf).max(axis=-1)
    return highest == numpy.where(drawn, values, numpy.inf).min(axis=-1)


METRICS = {"accuracy": accuracy, "f1": f1, "matthews": matthews, "pearson": pearson, "spearman": spearman}


def first_metric(logits: numpy.ndarray, labels: Any, task: Task) -> float:
    """Points of the task's first metric, 0 where it is not defined."""
    metrics = compute_metrics(predictions(logits, task), numpy.asarray(labels), task)
    return float(next(iter(metrics.values())) or 0.0)


__all__ = ["METRICS", "compute_metrics", "first_metric", "predictions"]
