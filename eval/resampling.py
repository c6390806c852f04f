"""Bootstrap intervals of metrics over examples and seeds, and of the difference of two rows."""

from dataclasses import dataclass
from typing import Literal

import numpy

from hf_albert_plus.bootstrap import percentile_interval
from hf_albert_plus.eval.metrics import measured
from hf_albert_plus.tasks.task import ERRORS, Task

DRAWS = 1000
_BLOCK = 1 << 22
Verdict = Literal["higher", "lower", "within noise"]
_OF_ERRORS = {"higher": "worse", "lower": "better"}


@dataclass(frozen=True)
class Sample:
    """Predictions of a row's runs on one split.

    Attributes:
        predicted: `[runs, examples]`, and of several labels `[runs, examples, num_labels]`.
        labels: of one run.
        logits: of several labels, `[runs, examples, num_labels]`; None where they are not known.
    """

    predicted: numpy.ndarray
    labels: numpy.ndarray
    logits: numpy.ndarray | None = None

    @property
    def lines(self) -> list[numpy.ndarray]:
        """What was said of the examples, in the order of the runs: predictions, then logits."""
        return [*self.predicted, *(() if self.logits is None else self.logits)]


def intervals(sample: Sample, task: Task, *, seed: int = 0) -> dict[str, list[float] | None]:
    """Percentile intervals of each metric's median over the runs, examples and runs drawn with replacement (Efron and
    Tibshirani, 1993, ch. 13).

    Returns:
        Metric -> low and high, in points or in the unit of an error; None where a draw leaves it undefined.
    """
    (values,) = _draw_medians([sample], task, seed=seed)
    return {name: _interval(name, drawn) for name, drawn in values.items()}


def rounded(metric: str, value: float) -> float:
    """A difference to a thousandth of a point; an error has a unit of its own, in which a thousandth may be much."""
    return value if metric in ERRORS else round(value, 3)


def _interval(metric: str, drawn: numpy.ndarray) -> list[float] | None:
    return percentile_interval(drawn, decimals=None if metric in ERRORS else 3)


@dataclass(frozen=True)
class Difference:
    """How much higher a row's score is than the baseline's.

    Attributes:
        points: of the two scores themselves, in the unit of the numbers where the metric is an error.
        interval: of the difference over draws of examples and runs; within noise where it holds 0.
    """

    metric: str
    points: float
    interval: list[float]

    @property
    def verdict(self) -> str:
        """What the interval allows to say, and of an error also which way is better."""
        said = verdict(self.interval)
        return f"{said}, {_OF_ERRORS[said]}" if self.metric in ERRORS and said in _OF_ERRORS else said


def difference(row: Sample, baseline: Sample, task: Task, *, points: float = 0.0, seed: int = 0) -> Difference | None:
    """How much higher a row's score is than the baseline's on the same examples, both drawn together; None where a draw
    leaves it undefined.

    Args:
        points: difference of the two scores.
    """
    name = task.metrics[0]
    interval = _interval(name, _draws(row, baseline, task, seed=seed))
    return None if interval is None else Difference(name, points, interval)


@dataclass(frozen=True)
class DrawnDifference:
    """How much higher a row's score is than the baseline's, in every draw.

    Attributes:
        points: of the rows as they are.
        draws: of the draws, `[DRAWS]`.
    """

    points: float
    draws: numpy.ndarray


def drawn_differences(row: Sample, baseline: Sample, task: Task, *, seed: int = 0) -> DrawnDifference:
    """The differences of two rows' scores by the task's first metric, examples and runs drawn together; a draw that leaves one undefined
    has NaN or an infinity."""
    draws = _draws(row, baseline, task, seed=seed)
    ours, theirs = (_score(each, task.metrics[0]) for each in (row, baseline))
    return DrawnDifference(ours - theirs, draws)


def _draws(row: Sample, baseline: Sample, task: Task, *, seed: int) -> numpy.ndarray:
    name = task.metrics[0]
    ours, theirs = _draw_medians([row, baseline], task, seed=seed, metrics=(name,))
    return ours[name] - theirs[name]


def _score(sample: Sample, metric: str) -> float:
    """The median of the runs' scores."""
    once = numpy.ones((1, len(sample.labels)))
    logits = [None] * len(sample.predicted) if sample.logits is None else list(sample.logits)
    runs = [measured(metric, *each, sample.labels, once) for each in zip(sample.predicted, logits, strict=True)]
    return float(numpy.median(runs))


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
    table = numpy.stack([samples[0].labels, *(line for sample in samples for line in sample.lines)]).astype(float)
    # `[1 + runs, examples]`, with the labels of a row after it where there are several.
    groups, counts = numpy.unique(table, axis=1, return_counts=True)
    labels, lines = groups[0], iter(groups[1:])
    said = [[next(lines) for _ in sample.lines] for sample in samples]
    names = metrics or task.metrics
    medians: list[dict[str, list[numpy.ndarray]]] = [{name: [] for name in names} for _ in samples]
    step = max(1, min(DRAWS, _BLOCK // len(counts)))
    for start in range(0, DRAWS, step):
        draws = min(step, DRAWS - start)
        weights = generator.multinomial(counts.sum(), counts / counts.sum(), size=draws).astype(float)
        for sample, of_sample, values in zip(samples, said, medians, strict=True):
            runs = len(sample.predicted)
            chosen = generator.integers(runs, size=(draws, runs))
            for name in names:
                of_run = numpy.stack(
                    [measured(name, *_of_run(of_sample, run, runs), labels, weights) for run in range(runs)], axis=-1
                )
                values[name].append(numpy.median(numpy.take_along_axis(of_run, chosen, axis=-1), axis=-1))
    return [{name: numpy.concatenate(parts) for name, parts in values.items()} for values in medians]


def _of_run(lines: list[numpy.ndarray], run: int, runs: int) -> tuple[numpy.ndarray, numpy.ndarray | None]:
    """A run's predictions and logits, of the lines of a sample."""
    return lines[run], lines[runs + run] if len(lines) > runs else None
