"""Thresholds that hold a score: the earliest exits at which held-out rows lose no more than they may."""

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
class Calibrated:
    """The threshold that was found, and what it does on the rows it was found on.

    Attributes:
        average_layers: layers that a row runs in the mean.
        score, full_score: points with the threshold, and of the last layer alone.
        tried: threshold, average layers and score of everything that was tried, rising in layers.
    """

    criterion: Criterion
    average_layers: float
    score: float
    full_score: float
    tried: tuple[tuple[float, float, float], ...]


def calibrate(
    logits_JBC: torch.Tensor,
    *,
    layers: Sequence[int],
    kind: Kind,
    score: Callable[[torch.Tensor], float],
    max_drop: float,
) -> Calibrated:
    """The threshold with the fewest layers in the mean, among those that lose at most `max_drop` points.

    Args:
        logits_JBC: what every exit and the last layer say of held-out rows.
        layers: the layer that each of them follows.
        score: points of the logits `[B, C]` that the rows leave with.

    Raises:
        InvalidInput: a drop below 0, or no threshold that loses as little.
    """
    if max_drop < 0:
        raise InvalidInput("--max-drop must be at least 0 points", got=max_drop, repair="use --max-drop 0.5")
    depths = torch.tensor(list(layers), dtype=torch.float64, device=logits_JBC.device)
    rows_B = torch.arange(logits_JBC.shape[1], device=logits_JBC.device)
    full = score(logits_JBC[-1])
    found: list[tuple[Criterion, float, float]] = []
    for threshold in _thresholds(logits_JBC, kind):
        criterion = Criterion(kind, threshold)
        taken_B = taken_exits(logits_JBC, criterion)
        found.append((criterion, float(depths[taken_B].mean()), score(logits_JBC[taken_B, rows_B])))
    holds = [each for each in found if each[2] >= full - max_drop - _ROUNDING]
    if not holds:
        # So sure that their probabilities are whole numbers, exits leave at any threshold.
        raise InvalidInput(
            f"some threshold of {kind} must lose at most {max_drop:g} points",
            got=f"{full - max(each[2] for each in found):.2f} lost by the best",
            repair="use --criterion patience, allow a larger --max-drop, or train the exits longer",
        )
    criterion, average, points = min(holds, key=lambda each: (each[1], -each[2]))
    tried = sorted(((c.threshold, depth, value) for c, depth, value in found), key=lambda each: each[1])
    return Calibrated(criterion, average, points, full, tuple(tried))


def _thresholds(logits_JBC: torch.Tensor, kind: Kind) -> list[float]:
    """What is worth trying: between never and always, where rows change their exits."""
    if kind == "patience":
        return [float(count) for count in range(1, len(logits_JBC) + 1)]
    measure = normalised_entropy if kind == "entropy" else confidence
    said = measure(logits_JBC[:-1].double()).flatten()
    shares = torch.linspace(0, 1, _TRIED, dtype=said.dtype, device=said.device)
    never = 0.0 if kind == "entropy" else 1.0
    return sorted({never, *torch.quantile(said, shares).clamp(0, 1).tolist()})


__all__ = ["Calibrated", "calibrate"]
