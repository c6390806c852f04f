"""Thresholds that hold a score: the earliest exits at which held-out rows lose no more than they may, and which exits are worth a look."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...errors import InvalidInput
from ...progress import bar
from .criteria import Criterion, Kind, confidence, normalised_entropy, taken_exits

# Thresholds that are tried, at evenly spread shares of what the rows say.
_TRIED = 200
# Points that two sums of the same scores may differ by.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Tried:
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
class Calibrated:
    """The threshold that was found, and the exits it was found for.

    Attributes:
        kept: numbers of the exits, from 0, without the last layer's classifier.
        full_score: points of the last layer alone.
        tried: every threshold that was tried on the kept exits, rising in layers.
    """

    kept: tuple[int, ...]
    found: Tried
    full_score: float
    tried: tuple[Tried, ...]


def calibrate(
    logits_JBC: torch.Tensor,
    *,
    layers: Sequence[int],
    kind: Kind,
    score: Callable[[torch.Tensor], float],
    max_drop: float,
    exit_cost: float,
    keep_exits: bool = False,
) -> Calibrated:
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

    def loses_more(tried: Tried) -> bool:
        return tried.score < full - max_drop - _ROUNDING

    def rank(tried: Tried) -> tuple[bool, float, float]:
        """Lower is better: those that hold by what they cost, the others by what they lose."""
        return (True, -tried.score, 0.0) if loses_more(tried) else (False, tried.cost, -tried.score)

    def best(kept: tuple[int, ...]) -> Calibrated:
        tried = _try_all(logits_JBC, layers=layers, kept=kept, kind=kind, score=score, exit_cost=exit_cost)
        progress.update()
        return Calibrated(kept, min(tried, key=rank), full, tuple(sorted(tried, key=lambda each: each.average_layers)))

    everything = tuple(range(len(logits_JBC) - 1))
    searches = 1 if keep_exits else len(everything) * (len(everything) + 1) // 2
    with bar(total=searches, description="thresholds") as progress:
        result = with_all = best(everything)
        while len(result.kept) > 1 and not keep_exits:
            fewer = [best(tuple(exit_ for exit_ in result.kept if exit_ != dropped)) for dropped in result.kept]
            offer = min(fewer, key=lambda each: rank(each.found))
            fails, value, _ = rank(result.found)
            if rank(offer.found) > (fails, value + _ROUNDING, 0.0):
                break
            result = offer
    if loses_more(result.found):
        # So sure that their probabilities are whole numbers, exits leave at any threshold.
        raise InvalidInput(
            f"some threshold of {kind} must lose at most {max_drop:g} points",
            got=f"{full - result.found.score:.2f} lost by the best",
            repair="use --criterion patience, allow a larger --max-drop, or train the exits longer",
        )
    saves = result.found.cost < layers[-1]
    return result if saves or loses_more(with_all.found) else with_all


def _try_all(
    logits_JBC: torch.Tensor,
    *,
    layers: Sequence[int],
    kept: tuple[int, ...],
    kind: Kind,
    score: Callable[[torch.Tensor], float],
    exit_cost: float,
) -> list[Tried]:
    """What every threshold worth trying does where these exits are all."""
    logits_KBC = logits_JBC[[*kept, len(logits_JBC) - 1]]
    place: Any = {"dtype": torch.float64, "device": logits_JBC.device}
    depths_K = torch.tensor([*(layers[exit_] for exit_ in kept), layers[-1]], **place)
    looks_K = torch.arange(1, len(depths_K) + 1, **place).clamp(max=len(kept))
    rows_B = torch.arange(logits_KBC.shape[1], device=logits_JBC.device)
    found = []
    for threshold in _thresholds(logits_KBC, kind):
        criterion = Criterion(kind, threshold)
        taken_B = taken_exits(logits_KBC, criterion)
        average = float(depths_K[taken_B].mean())
        cost = average + exit_cost * float(looks_K[taken_B].mean())
        found.append(Tried(criterion, average, cost, score(logits_KBC[taken_B, rows_B])))
    return found


def _thresholds(logits_JBC: torch.Tensor, kind: Kind) -> list[float]:
    """What is worth trying: never, always, and between them places where no row is, so that rounding moves none to another exit."""
    if kind == "patience":
        return [float(count) for count in range(1, len(logits_JBC) + 1)]
    measure = normalised_entropy if kind == "entropy" else confidence
    said = measure(logits_JBC[:-1].double()).flatten().sort().values
    between = (said[1:] + said[:-1]) / 2
    places = torch.linspace(0, len(between) - 1, min(_TRIED, len(between)), device=said.device).round().long()
    return sorted({0.0, 1.0, *between[places].clamp(0, 1).tolist()})


__all__ = ["Calibrated", "Tried", "calibrate"]
