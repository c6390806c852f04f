"""How sure a score is: bootstrap intervals over examples and seeds, and of the difference of two rows."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy

from hf_albert_plus.eval.metrics import METRICS
from hf_albert_plus.glue import Task

DRAWS = 1000
LEVEL = 95
_BLOCK = 1 << 22
Verdict = Literal["higher", "lower", "within noise"]


@dataclass(frozen=True)
class Sample:
    """Predictions of a row's runs on one split.

    Attributes:
        predicted: `[runs, examples]`.
        labels: `[examples]`.
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


def difference(row: Sample, baseline: Sample, task: Task, *, seed: int = 0) -> dict[str, Any] | None:
    """How much higher a row's score is than the baseline's on the same examples, both drawn together.

    Returns:
        metric, interval and verdict: a difference whose interval holds 0 is within noise. None where not defined.
    """
    name = task.metrics[0]
    ours, theirs = _draw_medians([row, baseline], task, seed=seed, metrics=(name,))
    interval = percentile_interval(ours[name] - theirs[name])
    if interval is None:
        return None
    return {"metric": name, "interval": interval, "verdict": verdict(interval)}


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
    groups, counts = numpy.unique(table, axis=1, return_counts=True)
    labels, lines = groups[0], iter(groups[1:])
    runs = [[next(lines) for _ in sample.predicted] for sample in samples]
    names = metrics or task.metrics
    found: list[dict[str, list[numpy.ndarray]]] = [{name: [] for name in names} for _ in samples]
    step = max(1, min(DRAWS, _BLOCK // len(counts)))
    for start in range(0, DRAWS, step):
        draws = min(step, DRAWS - start)
        weights = generator.multinomial(counts.sum(), counts / counts.sum(), size=draws).astype(float)
        for predicted, values in zip(runs, found, strict=True):
            chosen = generator.integers(len(predicted), size=(draws, len(predicted)))
            for name in names:
                of_run = numpy.stack([METRICS[name](line, labels, weights) for line in predicted], axis=-1)
                values[name].append(numpy.median(numpy.take_along_axis(of_run, chosen, axis=-1), axis=-1))
    return [{name: numpy.concatenate(parts) for name, parts in values.items()} for values in found]


def percentile_interval(values: numpy.ndarray) -> list[float] | None:
    """The middle `LEVEL` percent of drawn values; None where a draw left one undefined."""
    if not numpy.isfinite(values).all():
        return None
    return [round(float(bound), 3) for bound in numpy.percentile(values, [50 - LEVEL / 2, 50 + LEVEL / 2])]


__all__ = ["DRAWS", "LEVEL", "Sample", "difference", "intervals", "percentile_interval", "verdict"]
