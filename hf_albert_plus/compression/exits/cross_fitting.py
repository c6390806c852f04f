"""A threshold on all rows, judged on rows that it was not found on: each fold is judged by the threshold of the others."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from ...bootstrap import ROUNDING, percentile_interval
from ...errors import InvalidInput
from ...records.progress import bar
from .criteria import taken_exits
from .thresholds import Calibration, SearchRule, ThresholdSearch

# Points of logits `[B, C]` and labels.
Score = Callable[[torch.Tensor, list[Any]], float]

# What is allowed to be lost where a threshold is found, as shares of what may be lost on other rows: one that is found on rows loses
# less on them than on others.
_ALLOWANCES = (1.0, 0.5, 0.25, 0.0, -0.5, -1.0)
_DRAWS = 500


@dataclass(frozen=True)
class CrossFitted:
    """How rows fare with thresholds that were found on other rows.

    Attributes:
        rows: how many there are.
        folds: parts of them, each judged by the threshold that was found on the others.
        allowance: points that might be lost where the thresholds were found; None where nothing but never leaving held.
        tried: the allowances that were tried, the first that held the last: with the points that are lost, and the layers that a
            row runs in the mean.
        score: points with these thresholds.
        full_score: points of the last layer alone.
        average_layers: layers that a row runs in the mean.
        drop: points that are lost.
        drop_interval: the middle 95 % of `drop` over draws of the rows, each with its two answers; None where a draw left it undefined.
    """

    rows: int
    folds: int
    allowance: float | None
    tried: list[list[float]]
    score: float
    full_score: float
    average_layers: float
    drop: float
    drop_interval: list[float] | None


@dataclass(frozen=True)
class Fit:
    """A threshold, found on all rows, and how its procedure fares on rows that it was not found on."""

    calibration: Calibration
    cross_fitted: CrossFitted


def fit_threshold(
    logits_JBC: torch.Tensor,
    *,
    labels: Sequence[Any],
    rule: SearchRule,
    score: Score,
    max_drop: float,
    folds: int,
    seed: int,
) -> Fit:
    """Finds the threshold with which rows run least, of those that lose at most `max_drop` points: see `FoldedSearch.fit`."""
    return FoldedSearch(logits_JBC, labels=labels, rule=rule, score=score, folds=folds, seed=seed).fit(max_drop)


class FoldedSearch:
    """Thresholds on all rows, and on those outside of each fold. What each of them does is measured once, however much may be lost.

    Args:
        logits_JBC: what every exit and the last layer say of the rows.
        folds: parts of the rows, drawn by `seed`.

    Raises:
        InvalidInput: fewer than two rows a fold.
    """

    def __init__(
        self,
        logits_JBC: torch.Tensor,
        *,
        labels: Sequence[Any],
        rule: SearchRule,
        score: Score,
        folds: int,
        seed: int,
    ):
        if len(labels) < 2 * folds:
            raise InvalidInput(
                f"--folds {folds} need at least {2 * folds} rows to find a threshold on, two a fold",
                got=len(labels),
                repair="use fewer --folds, or more rows",
            )
        self.logits_JBC, self.labels, self.rule, self.score, self.seed = logits_JBC, list(labels), rule, score, seed
        self.parts = _draw_folds(len(labels), folds=folds, seed=seed)
        everywhere = torch.arange(len(labels))
        self.whole = _search(logits_JBC, everywhere, labels=labels, rule=rule, score=score)
        self.of_others = [
            _search(logits_JBC, everywhere[~torch.isin(everywhere, part)], labels=labels, rule=rule, score=score)
            for part in self.parts
        ]

    def fit(self, max_drop: float) -> Fit:
        """Finds the threshold with which rows run least. What it may lose on the rows that it is found on is `max_drop`, or less where more
        is lost on others: half of that, a quarter, nothing, and then something must be gained. Where none holds, no row leaves.

        Raises:
            InvalidInput: no threshold that loses as little, not even the one that no row leaves by.
        """
        with bar(total=1 + len(self.parts), description="thresholds of all rows and of the folds") as progress:
            self.whole.best(max_drop)
            progress.update()
            for each in self.of_others:
                _best(each, max_drop)
                progress.update()
        logits_JBC, parts, layers, score = self.logits_JBC, self.parts, self.rule.layers, self.score
        full, tried = score(logits_JBC[-1], self.labels), []
        chosen, allowance = self.whole.never(), None
        said_BC, layers_B = _held_out(logits_JBC, parts, [each.never() for each in self.of_others], layers=layers)
        for share in _ALLOWANCES if max_drop else (1.0,):
            allowed = share * max_drop
            said, depths = _held_out(
                logits_JBC, parts, [_best(each, allowed) for each in self.of_others], layers=layers
            )
            drop, depth = full - score(said, self.labels), float(depths.mean())
            tried.append([allowed, round(drop, 4), round(depth, 4)])
            best, leaves = _best(self.whole, allowed), depth < layers[-1]
            # Where no row leaves, nothing was learned of a threshold by which some do.
            if drop <= max_drop + ROUNDING and leaves and best.best.average_layers < layers[-1]:
                chosen, allowance, said_BC, layers_B = best, allowed, said, depths
                break
        points = score(said_BC, self.labels)
        cross_fitted = CrossFitted(
            rows=len(self.labels),
            folds=len(parts),
            allowance=allowance,
            tried=tried,
            score=points,
            full_score=full,
            average_layers=round(float(layers_B.mean()), 4),
            drop=round(full - points, 4),
            drop_interval=_drop_interval(said_BC, logits_JBC[-1], self.labels, score=score, seed=self.seed),
        )
        return Fit(chosen, cross_fitted)


def _draw_folds(count: int, *, folds: int, seed: int) -> list[torch.Tensor]:
    """The rows of each fold."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return [part.sort().values for part in order.tensor_split(folds)]


def _search(
    logits_JBC: torch.Tensor, rows_R: torch.Tensor, *, labels: Sequence[Any], rule: SearchRule, score: Score
) -> ThresholdSearch:
    of_rows = [labels[row] for row in rows_R.tolist()]
    return ThresholdSearch(logits_JBC[:, rows_R], rule, lambda logits_RC: score(logits_RC, of_rows))


def _best(search: ThresholdSearch, allowance: float) -> Calibration:
    """The best threshold, or the one that no row leaves by where none loses as little."""
    try:
        return search.best(allowance)
    except InvalidInput:
        return search.never()


def _held_out(
    logits_JBC: torch.Tensor,
    folds: Sequence[torch.Tensor],
    calibrations: Sequence[Calibration],
    *,
    layers: Sequence[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is said of each row, `[B, C]`, by the threshold of the folds without it, and the layers that it runs, `[B]`."""
    said_BC, layers_B = logits_JBC[-1].clone(), torch.zeros(logits_JBC.shape[1], dtype=torch.float64)
    for rows_R, calibration in zip(folds, calibrations, strict=True):
        exits = [*calibration.kept, len(logits_JBC) - 1]
        logits_KRC = logits_JBC[exits][:, rows_R]
        taken_R = taken_exits(logits_KRC, calibration.best.criterion)
        said_BC[rows_R] = logits_KRC[taken_R, torch.arange(len(rows_R))]
        layers_B[rows_R] = torch.tensor([layers[exit_] for exit_ in exits], dtype=torch.float64)[taken_R]
    return said_BC, layers_B


def _drop_interval(
    said_BC: torch.Tensor, full_BC: torch.Tensor, labels: Sequence[Any], *, score: Score, seed: int
) -> list[float] | None:
    """The interval of what is lost, the rows drawn with replacement, each with what was said of it with exits and without."""
    generator = torch.Generator().manual_seed(seed)
    drops = []
    for _ in range(_DRAWS):
        drawn_B = torch.randint(len(labels), (len(labels),), generator=generator)
        of_drawn = [labels[row] for row in drawn_B.tolist()]
        drops.append(score(full_BC[drawn_B], of_drawn) - score(said_BC[drawn_B], of_drawn))
    return percentile_interval(numpy.asarray(drops))
