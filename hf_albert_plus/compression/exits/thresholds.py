"""Thresholds that hold a score: the earliest exits at which held-out rows lose no more than they may, and which exits are worth a look."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import InvalidInput
from ...records.progress import bar
from ..settings import Kind
from .criteria import Criterion, confidence, normalised_entropy, taken_exits

# Thresholds that are tried, at evenly spread shares of what the rows say.
_TRIED = 200
# Points that two sums of the same scores may differ by.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ThresholdTrial:
    """A threshold and what it does on the rows.

    Attributes:
        average_layers: layers that a row runs in the mean.
        cost: those and its looks at exits, in layers.
        score: points that the rows leave with.
    """

    criterion: Criterion
    average_layers: float
    cost: float
    score: float


@dataclass(frozen=True)
class Calibration:
    """The best threshold, and the exits that it belongs to.

    Attributes:
        kept: numbers of the exits, from 0, without the last layer's classifier.
        best: the trial of the best threshold.
        full_score: points of the last layer alone.
        trials: every threshold that was tried on the kept exits, rising in layers.
    """

    kept: tuple[int, ...]
    best: ThresholdTrial
    full_score: float
    trials: tuple[ThresholdTrial, ...]


def calibrate(
    logits_JBC: torch.Tensor,
    *,
    layers: Sequence[int],
    kind: Kind,
    score: Callable[[torch.Tensor], float],
    max_drop: float,
    exit_cost: float,
    keep_exits: bool = False,
) -> Calibration:
    """The threshold with the least to run in the mean, among those that lose at most `max_drop` points. An exit without which there is
    no more to run is dropped, the worst first: it is sure where it is wrong, or few leave by it. Where leaving saves nothing, all stay.

    Args:
        logits_JBC: what every exit and the last layer say of held-out rows.
        layers: the layer that each of them follows.
        score: points of the logits `[B, C]` that the rows leave with.
        exit_cost: layers that a row could run in the time of a look at an exit.
        keep_exits: drop none.

    Raises:
        InvalidInput: a drop or a cost below 0, or no threshold that loses as little.
    """
    for name, unit, value in (("--max-drop", "points", max_drop), ("--exit-cost", "layers", exit_cost)):
        if value < 0:
            raise InvalidInput(f"{name} must be at least 0 {unit}", got=value, repair=f"use {name} 0.5")
    full = score(logits_JBC[-1])

    def loses_more(trial: ThresholdTrial) -> bool:
        return trial.score < full - max_drop - _ROUNDING

    def rank(trial: ThresholdTrial) -> tuple[bool, float, float]:
        """Lower is better: those that hold by what they cost, the others by what they lose."""
        return (True, -trial.score, 0.0) if loses_more(trial) else (False, trial.cost, -trial.score)

    def search(kept: tuple[int, ...]) -> Calibration:
        trials = _try_all(logits_JBC, layers=layers, kept=kept, kind=kind, score=score, exit_cost=exit_cost)
        progress.update()
        rising = sorted(trials, key=lambda trial: trial.average_layers)
        return Calibration(kept, best=min(trials, key=rank), full_score=full, trials=tuple(rising))

    everything = tuple(range(len(logits_JBC) - 1))
    searches = 1 if keep_exits else len(everything) * (len(everything) + 1) // 2
    with bar(total=searches, description="thresholds") as progress:
        result = with_all = search(everything)
        while len(result.kept) > 1 and not keep_exits:
            fewer = [search(tuple(exit_ for exit_ in result.kept if exit_ != dropped)) for dropped in result.kept]
            offer = min(fewer, key=lambda each: rank(each.best))
            fails, value, _ = rank(result.best)
            if rank(offer.best) > (fails, value + _ROUNDING, 0.0):
                break
            result = offer
    if loses_more(result.best):
        # So sure that their probabilities are whole numbers, exits leave at any threshold.
        raise InvalidInput(
            f"some threshold of {kind} must lose at most {max_drop:g} points",
            got=f"{full - result.best.score:.2f} lost by the best",
            repair="use --criterion patience, allow a larger --max-drop, or train the exits longer",
        )
    saves = result.best.cost < layers[-1]
    return result if saves or loses_more(with_all.best) else with_all


def _try_all(
    logits_JBC: torch.Tensor,
    *,
    layers: Sequence[int],
    kept: tuple[int, ...],
    kind: Kind,
    score: Callable[[torch.Tensor], float],
    exit_cost: float,
) -> list[ThresholdTrial]:
    """What every threshold worth trying does where these exits are all."""
    logits_KBC = logits_JBC[[*kept, len(logits_JBC) - 1]]
    exactly: Any = {"dtype": torch.float64, "device": logits_JBC.device}
    depths_K = torch.tensor([*(layers[exit_] for exit_ in kept), layers[-1]], **exactly)
    looks_K = torch.arange(1, len(depths_K) + 1, **exactly).clamp(max=len(kept))
    rows_B = torch.arange(logits_KBC.shape[1], device=logits_JBC.device)
    trials = []
    for threshold in _thresholds(logits_KBC, kind):
        criterion = Criterion(kind, threshold)
        taken_B = taken_exits(logits_KBC, criterion)
        average = float(depths_K[taken_B].mean())
        cost = average + exit_cost * float(looks_K[taken_B].mean())
        trials.append(ThresholdTrial(criterion, average, cost, score(logits_KBC[taken_B, rows_B])))
    return trials


def _thresholds(logits_JBC: torch.Tensor, kind: Kind) -> list[float]:
    """What is worth trying: never, always, and between them places where no row is, so that rounding moves none to another exit."""
    if kind == "patience":
        return [float(count) for count in range(1, len(logits_JBC) + 1)]
    measure = normalised_entropy if kind == "entropy" else confidence
    said = measure(logits_JBC[:-1].double()).flatten().sort().values
    between = (said[1:] + said[:-1]) / 2
    places = torch.linspace(0, len(between) - 1, min(_TRIED, len(between)), device=said.device).round().long()
    return sorted({0.0, 1.0, *between[places].clamp(0, 1).tolist()})
