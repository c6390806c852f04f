"""Metrics in points (100 is perfect), their bootstrap intervals over examples and seeds, and those of the difference of two rows.

A bootstrap weighs examples by how often each was drawn, so every metric here takes weights.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy

from hf_albert_plus.bootstrap import percentile_interval
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.task import Task


def predictions(logits: numpy.ndarray, task: Task) -> numpy.ndarray:
    """Logits `[examples, num_labels]` -> label ids, or the one value for regression, `[examples]`; of several labels 1 for each whose
    probability reaches a half and 0 for the others, `[examples, num_labels]`.

    Raises:
        InvalidInput: logits that are not finite.
    """
    if not numpy.isfinite(logits).all():
        raise InvalidInput(
            "logits must be finite", got="NaN or infinity", repair="train in fp32, or at a lower learning rate"
        )
    if task.has_several_labels:
        return (logits >= 0).astype(int)
    return logits[:, 0].astype(float) if task.is_regression else logits.argmax(axis=-1)


def compute_metrics(predicted: numpy.ndarray, labels: numpy.ndarray, task: Task) -> dict[str, float | None]:
    """The task's metrics, its score first.

    Args:
        predicted: label ids, or values for regression, `[examples]`; 0 and 1 of several labels, `[examples, num_labels]`.
        labels: in the same form.

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
    points = {name: float(METRICS[name](predicted, labels, weights)[0]) for name in task.metrics}
    return {name: value if numpy.isfinite(value) else None for name, value in points.items()}


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


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "weighted_f1": weighted_f1,
    "micro_f1": micro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}


def first_metric(logits: numpy.ndarray, labels: Any, task: Task) -> float:
    """Points of the task's first metric, 0 where it is not defined."""
    metrics = compute_metrics(predictions(logits, task), numpy.asarray(labels), task)
    return float(next(iter(metrics.values())) or 0.0)


DRAWS = 1000
_BLOCK = 1 << 22
Verdict = Literal["higher", "lower", "within noise"]


@dataclass(frozen=True)
class Sample:
    """Predictions of a row's runs on one split.

    Attributes:
        predicted: `[runs, examples]`, and of several labels `[runs, examples, num_labels]`.
        labels: of one run.
    """

    predicted: numpy.ndarray
    labels: numpy.ndarray


def intervals(sample: Sample, task: Task, *, seed: int = 0) -> dict[str, list[float] | None]:
    """Percentile intervals of each metric's median over the runs, examples and runs drawn with replacement (Efron and
    Tibshirani, 1993, ch. 13).

    Returns:
        Metric -> low and high in points; None where a draw leaves it undefined.
    """
    (values,) = _draw_medians([sample], task, seed=seed)
    return {name: percentile_interval(drawn) for name, drawn in values.items()}


@dataclass(frozen=True)
class Difference:
    """How much higher a row's score is than the baseline's.

    Attributes:
        points: of the two scores themselves.
        interval: of the difference over draws of examples and runs; within noise where it holds 0.
    """

    metric: str
    points: float
    interval: list[float]

    @property
    def verdict(self) -> Verdict:
        return verdict(self.interval)


def difference(row: Sample, baseline: Sample, task: Task, *, points: float = 0.0, seed: int = 0) -> Difference | None:
    """How much higher a row's score is than the baseline's on the same examples, both drawn together; None where a draw
    leaves it undefined.

    Args:
        points: difference of the two scores.
    """
    name = task.metrics[0]
    ours, theirs = _draw_medians([row, baseline], task, seed=seed, metrics=(name,))
    interval = percentile_interval(ours[name] - theirs[name])
    return None if interval is None else Difference(name, points, interval)


def verdict(interval: list[float]) -> Verdict:
    """What an interval of a difference allows to say."""
    low, high = interval
    return "higher" if low > 0 else "lower" if high < 0 else "within noise"


def _draw_medians(
    samples: list[Sample], task: Task, *, seed: int, metrics: tuple[str, ...] | None = None
) -> list[dict[str, numpy.ndarray]]:
    """For each sample: metric -> its median over the runs in every draw, `[DRAWS]`."""
    generator = numpy.random.default_rng(seed)
    # Examples with the same label and predictions are one: how often each such group is drawn is multinomial.
    table = numpy.stack([samples[0].labels, *(line for sample in samples for line in sample.predicted)]).astype(float)
    # `[1 + runs, examples]`, with the labels of a row after it where there are several.
    groups, counts = numpy.unique(table, axis=1, return_counts=True)
    labels, lines = groups[0], iter(groups[1:])
    runs = [[next(lines) for _ in sample.predicted] for sample in samples]
    names = metrics or task.metrics
    medians: list[dict[str, list[numpy.ndarray]]] = [{name: [] for name in names} for _ in samples]
    step = max(1, min(DRAWS, _BLOCK // len(counts)))
    for start in range(0, DRAWS, step):
        draws = min(step, DRAWS - start)
        weights = generator.multinomial(counts.sum(), counts / counts.sum(), size=draws).astype(float)
        for predicted, values in zip(runs, medians, strict=True):
            chosen = generator.integers(len(predicted), size=(draws, len(predicted)))
            for name in names:
                of_run = numpy.stack([METRICS[name](line, labels, weights) for line in predicted], axis=-1)
                values[name].append(numpy.median(numpy.take_along_axis(of_run, chosen, axis=-1), axis=-1))
    return [{name: numpy.concatenate(parts) for name, parts in values.items()} for values in medians]
