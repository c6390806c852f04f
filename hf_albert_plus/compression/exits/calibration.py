"""Thresholds that hold a score: the earliest exits at which held-out rows lose no more than they may, and which exits are worth a look."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ...errors import InvalidInput
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
    exit_cost: float = 0.0,
) -> Calibrated:
    """The threshold with the least to run in the mean, among those that lose at most `max_drop` points. An exit without which there is
    less to run is dropped, the worst first: it is sure where it is wrong, or few leave by it.

    Args:
        logits_JBC: what every exit and the last layer say of held-out rows.
        layers: the layer that each of them follows.
        score: points of the logits `[B, C]` that the rows leave with.
        exit_cost: layers that a row could run in the time of a look at an exit.

    Raises:
        InvalidInput: a drop or a cost below 0, or no threshold that loses as little.
    """
    for name, value in (("--max-drop", max_drop), ("--exit-cost", exit_cost)):
        if value < 0:
            raise InvalidInput(f"{name} must be at least 0", got=value, repair=f"use {name} 0.5")
    full = score(logits_JBC[-1])

    def tries(kept: tuple[int, ...]) -> list[Tried]:
        found = _try_all(logits_JBC, layers=layers, kept=kept, kind=kind, score=score, exit_cost=exit_cost)
        return sorted(found, key=lambda each: each.average_layers)

    def cheapest(tried: list[Tried]) -> Tried | None:
        holds = [each for each in tried if each.score >= full - max_drop - _ROUNDING]
        return min(holds, key=lambda each: (each.cost, -each.score), default=None)

    kept = tuple(range(len(logits_JBC) - 1))
    tried = tries(kept)
    most = max(each.score for each in tried)
    found = cheapest(tried)
    while len(kept) > 1:
        fewer = [tuple(exit_ for exit_ in kept if exit_ != dropped) for dropped in kept]
        offers = [(best, rest, those) for rest in fewer if (best := cheapest(those := tries(rest)))]
        offer = min(offers, key=lambda each: (each[0].cost, -each[0].score), default=None)
        if offer is None or (found and offer[0].cost >= found.cost - _ROUNDING):
            break
        found, kept, tried = offer
    if found is None:
        # So sure that their probabilities are whole numbers, exits leave at any threshold.
        raise InvalidInput(
            f"some threshold of {kind} must lose at most {max_drop:g} points",
            got=f"{full - most:.2f} lost by the best",
            repair="use --criterion patience, allow a larger --max-drop, or train the exits longer",
        )
    return Calibrated(kept, found, full, tuple(tried))


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
    depths_K = torch.tensor([*(layers[exit_] for exit_ in kept), layers[-1]], dtype=torch.float64)
    looks_K = torch.arange(1, len(depths_K) + 1).clamp(max=len(kept)).double()
    rows_B = torch.arange(logits_KBC.shape[1])
    found = []
    for threshold in _thresholds(logits_KBC, kind):
        criterion = Criterion(kind, threshold)
        taken_B = taken_exits(logits_KBC, criterion)
        average = float(depths_K[taken_B].mean())
        cost = average + exit_cost * float(looks_K[taken_B].mean())
        found.append(Tried(criterion, average, cost, score(logits_KBC[taken_B, rows_B])))
    return found


def _thresholds(logits_JBC: torch.Tensor, kind: Kind) -> list[float]:
    """What is worth trying: between never and always, where rows change their exits."""
    if kind == "patience":
        return [float(count) for count in range(1, len(logits_JBC) + 1)]
    measure = normalised_entropy if kind == "entropy" else confidence
    said = measure(logits_JBC[:-1].double()).flatten()
    shares = torch.linspace(0, 1, _TRIED, dtype=said.dtype, device=said.device)
    never = 0.0 if kind == "entropy" else 1.0
    return sorted({never, *torch.quantile(said, shares).clamp(0, 1).tolist()})


__all__ = ["Calibrated", "Tried", "calibrate"]
