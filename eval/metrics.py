"""Metrics in points (100 is perfect), and errors in the unit of the numbers.

A bootstrap weighs examples by how often each was drawn, so every metric here takes weights.
"""

import warnings
from collections.abc import Sequence

import numpy

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.span_scores import (
    answer_f1,
    answered_exact_matches,
    answered_f1,
    exact_matches,
    no_answer_accuracy,
    span_counts,
)
from hf_albert_plus.eval.tag_scores import entity_f1, entity_precision, entity_recall, tag_accuracy, tag_counts
from hf_albert_plus.tasks.task import ERRORS, Task


def compute_metrics(
    predicted: numpy.ndarray,
    labels: numpy.ndarray,
    task: Task,
    *,
    logits: numpy.ndarray | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, float | None]:
    """The task's metrics, its score first.

    Args:
        predicted: label ids, or values for regression, `[examples]`; 0 and 1 of several labels, `[examples, num_labels]`; ids of tags,
            `[examples, words]`, as `padded_tags` gives them; texts of spans, and for labels lists of them, as `as_objects` does.
        labels: in the same form.
        logits: of several labels, `[examples, num_labels]`, by which rankings order the rows.
        names: of the metrics that are wanted; all without.

    Returns:
        Metric name -> points, or the error in the unit of the numbers. None where the metric is not defined: a correlation with constant
        values, or a ranking without logits.

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
    predicted, labels = comparable(predicted, labels, task)
    values = {name: float(measured(name, predicted, logits, labels, weights)[0]) for name in names or task.metrics}
    return {name: value if numpy.isfinite(value) else None for name, value in values.items()}


def comparable(predicted: numpy.ndarray, labels: numpy.ndarray, task: Task) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Predictions and labels as metrics take them: as they are, but for tags and spans, of which each row is what is counted of it.

    Raises:
        InvalidInput: another number of tags than of words.
    """
    if not task.answers_parts:
        return predicted, labels
    counts = span_counts(predicted, labels) if task.has_spans else tag_counts(predicted, labels, task)
    return counts, numpy.zeros_like(counts)


def measured(
    name: str, predicted: numpy.ndarray, logits: numpy.ndarray | None, labels: numpy.ndarray, weights: numpy.ndarray
) -> numpy.ndarray:
    """A metric in every draw, `[draws]`; NaN where it ranks rows by logits and there are none."""
    if name not in RANKINGS:
        return METRICS[name](predicted, labels, weights)
    return numpy.full(len(weights), numpy.nan) if logits is None else METRICS[name](logits, labels, weights)


def measure_text(metric: str, value: float | None, *, decimals: int, sign: str = "") -> str:
    """A metric's value as tables show it: points to so many decimals, an error to four digits.

    Args:
        sign: `+` for a difference.
    """
    if value is None:
        return "undefined"
    return f"{value:{sign}.4g}" if metric in ERRORS else f"{value:{sign}.{decimals}f}"


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
    ones = weights @ (predicted == 1) + weights @ (labels == 1)
    return 100 * 2 * hits / numpy.maximum(ones, 1)


def matthews(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Matthews' correlation for any number of classes (Gorodkin, 2004, eq. 8); 0 where one side has a single class."""
    classes = numpy.union1d(predicted, labels)
    total = weights.sum(axis=-1)
    predicted_of = numpy.stack([weights @ (predicted == each) for each in classes])
    labelled_of = numpy.stack([weights @ (labels == each) for each in classes])
    covariance = total * (weights @ (predicted == labels)) - (predicted_of * labelled_of).sum(axis=0)
    spread = (total**2 - (predicted_of**2).sum(axis=0)) * (total**2 - (labelled_of**2).sum(axis=0))
    return 100 * covariance / numpy.sqrt(numpy.where(spread > 0, spread, numpy.inf))


def macro_f1(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Mean over classes of their F1, those left out that neither predictions nor labels have; over all labels where a row may have
    several, 0 for one that nothing has."""
    hits, sums = _hits_and_sums(predicted, labels, weights)
    if predicted.ndim == 2:
        return 100 * numpy.mean(2 * hits / numpy.maximum(sums, 1), axis=-1)
    return 100 * (2 * hits / numpy.maximum(sums, 1)).sum(axis=-1) / numpy.maximum((sums > 0).sum(axis=-1), 1)


def weighted_f1(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Mean of the classes' F1, each weighted by the rows with that label."""
    hits, sums = _hits_and_sums(predicted, labels, weights)
    rows = weights @ _of_classes(labels, numpy.union1d(predicted, labels))
    return 100 * (rows * 2 * hits / numpy.maximum(sums, 1)).sum(axis=-1) / weights.sum(axis=-1)


def micro_f1(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """F1 over all pairs of a row and a label; 0 where neither side has one."""
    hits, sums = _hits_and_sums(predicted, labels, weights)
    return 100 * 2 * hits.sum(axis=-1) / numpy.maximum(sums.sum(axis=-1), 1)


def _hits_and_sums(
    predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """For each class: rows with it on both sides, and rows with it on either, those with it on both counted twice;
    `[draws, classes]`."""
    if predicted.ndim == 1:
        classes = numpy.union1d(predicted, labels)
        predicted, labels = _of_classes(predicted, classes), _of_classes(labels, classes)
    return weights @ (predicted * labels), weights @ (predicted + labels)


def _of_classes(values: numpy.ndarray, classes: numpy.ndarray) -> numpy.ndarray:
    """1 where a row has a class, `[examples, classes]`."""
    return (values[:, None] == classes).astype(float)


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


def rmse(predicted: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Root of the mean squared error, in the unit of the numbers."""
    return numpy.sqrt(weights @ (predicted - labels) ** 2 / weights.sum(axis=-1))


def average_precision(logits: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Mean over labels of Σ (Rₙ − Rₙ₋₁) Pₙ, where Pₙ and Rₙ are precision and recall of the rows whose logits reach the n-th
    highest; labels that no row has are left out. Not defined where no row has any.

    Args:
        logits, labels: `[examples, num_labels]`.
    """
    columns = zip(logits.T, labels.T, strict=True)
    of_labels = numpy.stack([_average_precision_of_one(*column, weights) for column in columns], axis=-1)
    known = numpy.isfinite(of_labels)
    return numpy.where(
        known.any(axis=-1), 100 * numpy.where(known, of_labels, 0).sum(axis=-1) / numpy.maximum(known.sum(axis=-1), 1), numpy.nan
    )  # fmt: skip


def _average_precision_of_one(logits: numpy.ndarray, labels: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Average precision of one label, `[draws]`; NaN where no drawn row has it."""
    order = numpy.argsort(-logits, kind="stable")
    ordered, drawn = logits[order], weights[:, order]
    starts = numpy.flatnonzero(numpy.r_[True, ordered[1:] != ordered[:-1]])
    hits = numpy.add.reduceat(drawn * labels[order], starts, axis=-1)
    found = numpy.add.reduceat(drawn, starts, axis=-1).cumsum(axis=-1)
    precision = hits.cumsum(axis=-1) / numpy.maximum(found, 1)
    total = hits.sum(axis=-1)
    return numpy.where(total > 0, (hits * precision).sum(axis=-1) / numpy.maximum(total, 1), numpy.nan)


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "weighted_f1": weighted_f1,
    "micro_f1": micro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "rmse": rmse,
    "average_precision": average_precision,
    "entity_f1": entity_f1,
    "entity_precision": entity_precision,
    "entity_recall": entity_recall,
    "tag_accuracy": tag_accuracy,
    "answer_f1": answer_f1,
    "exact_match": exact_matches,
    "answered_f1": answered_f1,
    "answered_exact_match": answered_exact_matches,
    "no_answer_accuracy": no_answer_accuracy,
}
# Metrics of logits, not of what is predicted by them.
RANKINGS = frozenset({"average_precision"})
