"""Calls are compared in turns: each is warmed up until stable, then timed round by round until the ratio is known well enough.

Under load from elsewhere, or with a clock rate that drifts, two measurements of the same thing differ by far more than
10 %. What holds is a ratio: in a round every call gets a short block, so what slows one slows all, and a speedup is the
median over rounds of (baseline's block median / row's block median). Its interval comes from the rounds' order
statistics, without assumptions on their distribution.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy
from scipy.stats import binom

from hf_albert_plus.eval.measured_documents import Cell, Percentiles, WarmedUp
from hf_albert_plus.records.progress import bar

# Rounds go on until every speedup's 95 % interval is within this of it, or the patience is at its end.
PRECISION = 0.02
_WINDOW = 5
Call = Callable[[], object]
Stopwatch = Callable[[Call], float]
# What a label does in a round, by the round's number: samples in ms.
Player = Callable[[int], list[float]]


@dataclass(frozen=True)
class Method:
    """How long calls are compared.

    Attributes:
        rounds: turns that every call gets at least.
        patience: how many times the time asked for may be spent where it is noisy.
        settle_s: seconds of calls that do not count before every block. A library's idle threads go on spinning for tens of
            milliseconds after its last call (onnxruntime's: 50), and slow whoever comes next.
    """

    rounds: int = 24
    patience: float = 8
    settle_s: float = 0.06


USUAL = Method()
_METHOD = ContextVar("method", default=USUAL)


@contextmanager
def timed_by(method: Method) -> Iterator[None]:
    """Calls are compared by another method inside of this context, whoever compares them."""
    token = _METHOD.set(method)
    try:
        yield
    finally:
        _METHOD.reset(token)


def current_method() -> Method:
    """The method by which calls are compared here."""
    return _METHOD.get()


def elapsed_ms(call: Call) -> float:
    """Milliseconds that a call takes."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


@dataclass(frozen=True)
class WarmUp:
    """Calls before the first counted one, whether the last two windows of them agreed within 5 %, and the pace."""

    calls: int
    stable: bool
    call_ms: float


@dataclass(frozen=True)
class Timings:
    """Samples of calls that took turns.

    Attributes:
        rounds: label -> its samples in ms of each round.
        warm_up: label -> what its warm-up took.
    """

    rounds: dict[str, list[list[float]]]
    warm_up: dict[str, WarmUp]

    def samples(self, label: str) -> list[float]:
        return [value for block in self.rounds[label] for value in block]


def time_calls(
    calls: Mapping[str, Call],
    *,
    baseline: str,
    seconds: float,
    description: str,
    patience: float | None = None,
    stopwatch: Stopwatch = elapsed_ms,
) -> Timings:
    """Times calls in turns.

    Args:
        seconds: counted time a call gets at least, about.
        patience: how many times the time asked for may be spent where it is noisy; the method's by default.
        stopwatch: runs a call and gives its milliseconds.
    """
    method = current_method()
    warm_up = {label: warm(call, stopwatch=stopwatch) for label, call in calls.items()}

    def player(label: str, call: Call) -> Player:
        count = max(2, min(400, round(seconds * 1e3 / method.rounds / warm_up[label].call_ms)))

        def play(_: int) -> list[float]:
            return [stopwatch(call) for _ in range(count)]

        return play

    players = {label: player(label, call) for label, call in calls.items()}
    limit_s = (method.patience if patience is None else patience) * seconds * len(calls)
    rounds = take_turns(players, settle=calls, baseline=baseline, description=description, limit_s=limit_s)
    return Timings(rounds=rounds, warm_up=warm_up)


def warm(call: Call, *, seconds: float = 5.0, stopwatch: Stopwatch = elapsed_ms) -> WarmUp:
    """Calls until the medians of two windows in a row agree within 5 %, or the time is over."""
    end, calls, last = time.perf_counter() + seconds, 0, numpy.inf
    while True:
        window = [stopwatch(call) for _ in range(_WINDOW)]
        calls += _WINDOW
        median = float(numpy.median(window))
        stable = abs(median - last) <= 0.05 * last < numpy.inf
        if stable or time.perf_counter() >= end:
            return WarmUp(calls=calls, stable=stable, call_ms=min(window))
        last = median


def take_turns(
    players: Mapping[str, Player],
    *,
    settle: Mapping[str, Call],
    baseline: str,
    description: str,
    rounds: int | None = None,
    limit_s: float = 0.0,
) -> dict[str, list[list[float]]]:
    """Label -> samples in ms of each round. Every round goes through all labels, the first one rotating.

    Args:
        settle: called, and not counted, for the method's `settle_s` before every block, and once at least.
        rounds: at least so many; the method's by default.
        limit_s: no more than those after so many seconds, whether or not the speedups are known to `PRECISION`.
    """
    method = current_method()
    rounds, stop = rounds or method.rounds, time.perf_counter() + limit_s
    samples: dict[str, list[list[float]]] = {label: [] for label in players}
    labels = list(players)
    with bar(total=rounds, description=description) as progress:
        for turn in itertools.count():
            if turn >= rounds:
                if time.perf_counter() >= stop or _known(samples, baseline):
                    break
                progress.total += 1
                progress.set_postfix_str("noisy: more rounds", refresh=False)
            first = turn % len(labels)
            for label in labels[first:] + labels[:first]:
                end = time.perf_counter() + method.settle_s
                settle[label]()
                while time.perf_counter() < end:
                    settle[label]()
                samples[label].append(players[label](turn))
            progress.update()
    return samples


def _known(rounds: Mapping[str, list[list[float]]], baseline: str) -> bool:
    for blocks in rounds.values():
        ratio, (low, high) = speedup(blocks, rounds[baseline])
        if max(high - ratio, ratio - low) > PRECISION * ratio:
            return False
    return True


def speedup(row: list[list[float]], baseline: list[list[float]]) -> tuple[float, tuple[float, float]]:
    """How many times as fast a row is as the baseline, and a 95 % interval.

    Args:
        row, baseline: samples in ms of each round, the same rounds.
    """
    ratios = sorted(float(numpy.median(base) / numpy.median(block)) for base, block in zip(baseline, row, strict=True))
    # The sign test's interval of a median: of n values each lies below it with probability 1/2.
    depth = max(0, int(binom.ppf(0.025, len(ratios), 0.5)) - 1)
    return float(numpy.median(ratios)), (ratios[depth], ratios[-1 - depth])


def summarise(timings: Timings, *, baseline: str, items: int = 1) -> dict[str, Cell]:
    """Label -> percentiles over every sample, items a second, and the speedup with its interval.

    Args:
        items: what one call answers: sequences of a batch.
    """
    cells = {}
    for label, blocks in timings.rounds.items():
        samples_ms = numpy.asarray(timings.samples(label))
        ratio, (low, high) = speedup(blocks, timings.rounds[baseline])
        cells[label] = Cell(
            **vars(percentiles(samples_ms)),
            items_per_s=round(items * 1e3 / float(samples_ms.mean()), 2),
            speedup=round(ratio, 3),
            speedup_interval=[round(low, 3), round(high, 3)],
            warm_up=WarmedUp(calls=timings.warm_up[label].calls, stable=timings.warm_up[label].stable),
            rounds=[[round(value, 4) for value in block] for block in blocks],
        )
    return cells


def percentiles(samples_ms: numpy.ndarray) -> Percentiles:
    """The percentiles of samples. Outliers lie more than three interquartile ranges above the third quartile; they are
    counted and kept."""
    p25, p50, p75, p90, p95, p99 = numpy.percentile(samples_ms, [25, 50, 75, 90, 95, 99])
    figures = {"p50_ms": p50, "p90_ms": p90, "p95_ms": p95, "p99_ms": p99, "max_ms": samples_ms.max()}
    return Percentiles(
        **{name: round(float(value), 4) for name, value in figures.items()},
        samples=len(samples_ms),
        outliers=int((samples_ms > p75 + 3 * (p75 - p25)).sum()),
    )
