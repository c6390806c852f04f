"""Thresholds that hold a score: the earliest exits at which held-out rows lose no more than they may, and which exits are worth a look."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...bootstrap import ROUNDING
from ...errors import InvalidInput
from ..settings import Kind
from .criteria import TOLERANCE, Criterion, confidence, least_sure, never_leaves, normalised_entropy, taken_exits

# Thresholds that are tried, at evenly spread shares of what the rows say.
_TRIED = 200


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


@dataclass(frozen=True)
class SearchRule:
    """What thresholds are searched by.

    Attributes:
        layers: the layer that each exit follows, and the last one.
        exit_costs: layers that a row could run in the time of a look, for each exit.
        keep_exits: drop none.
        label_thresholds: of several labels, the probability from which each is given; empty where labels exclude each other.
        tolerance: of `patience` in regression: how far apart two predictions are the same.
    """

    layers: Sequence[int]
    kind: Kind
    exit_costs: Sequence[float]
    keep_exits: bool = False
    label_thresholds: tuple[float, ...] = ()
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if len(self.exit_costs) != len(self.layers) - 1:
            raise ValueError(f"{len(self.exit_costs)} costs of {len(self.layers) - 1} exits")
        if min(self.exit_costs, default=0.0) < 0:
            raise InvalidInput(
                "--exit-cost must be at least 0 layers", got=min(self.exit_costs), repair="use --exit-cost 0.5"
            )


class ThresholdSearch:
    """Thresholds on one set of rows. What each of them does is measured once, however much may be lost.

    Args:
        logits_JBC: what every exit and the last layer say of the rows.
        score: points of the logits `[B, C]` that the rows leave with.
    """

    def __init__(self, logits_JBC: torch.Tensor, rule: SearchRule, score: Callable[[torch.Tensor], float]):
        self.logits_JBC, self.rule, self.score = logits_JBC, rule, score
        self.full_score = score(logits_JBC[-1])
        self.all_exits = tuple(range(len(logits_JBC) - 1))
        self._trials: dict[tuple[int, ...], list[ThresholdTrial]] = {}

    def best(self, max_drop: float) -> Calibration:
        """The threshold with the least to run in the mean, among those that lose at most `max_drop` points, which may be below 0. An
        exit without which there is no more to run is dropped, the worst first: it is sure where it is wrong, or few leave by it.
        Where leaving saves nothing, all stay.

        Raises:
            InvalidInput: no threshold loses as little.
        """
        least = self.full_score - max_drop - ROUNDING

        def rank(trial: ThresholdTrial) -> tuple[bool, float, float]:
            """Lower is better: those that hold by what they cost, the others by what they lose."""
            return (True, -trial.score, 0.0) if trial.score < least else (False, trial.cost, -trial.score)

        def of(kept: tuple[int, ...]) -> Calibration:
            return self._calibration(kept, best=min(self._tried(kept), key=rank))

        result = with_all = of(self.all_exits)
        while len(result.kept) > 1 and not self.rule.keep_exits:
            fewer = [of(tuple(exit_ for exit_ in result.kept if exit_ != dropped)) for dropped in result.kept]
            offer = min(fewer, key=lambda each: rank(each.best))
            fails, value, _ = rank(result.best)
            if rank(offer.best) > (fails, value + ROUNDING, 0.0):
                break
            result = offer
        if result.best.score < least:
            # So sure that their probabilities are whole numbers, exits leave at any threshold.
            raise InvalidInput(
                f"some threshold of {self.rule.kind} must lose at most {max_drop:g} points",
                got=f"{self.full_score - result.best.score:.2f} lost by the best",
                repair="use --criterion patience, allow a larger --max-drop, or train the exits longer",
            )
        saves = result.best.cost < self.rule.layers[-1]
        return result if saves or with_all.best.score < least else with_all

    def never(self) -> Calibration:
        """The threshold that no row leaves by, with all exits."""
        trials = self._tried(self.all_exits)
        never = never_leaves(self.rule.kind, exits=len(self.all_exits))
        return self._calibration(
            self.all_exits, best=next(each for each in trials if each.criterion.threshold == never)
        )

    def _calibration(self, kept: tuple[int, ...], *, best: ThresholdTrial) -> Calibration:
        rising = sorted(self._tried(kept), key=lambda trial: trial.average_layers)
        return Calibration(kept, best=best, full_score=self.full_score, trials=tuple(rising))

    def _tried(self, kept: tuple[int, ...]) -> list[ThresholdTrial]:
        """What every threshold worth trying does where these exits are all."""
        if kept not in self._trials:
            self._trials[kept] = self._try_all(kept)
        return self._trials[kept]

    def _try_all(self, kept: tuple[int, ...]) -> list[ThresholdTrial]:
        logits_KBC = self.logits_JBC[[*kept, len(self.logits_JBC) - 1]]
        exactly: Any = {"dtype": torch.float64, "device": logits_KBC.device}
        layers, costs = self.rule.layers, [self.rule.exit_costs[exit_] for exit_ in kept]
        depths_K = torch.tensor([*(layers[exit_] for exit_ in kept), layers[-1]], **exactly)
        # Who comes to the last layer has looked at every exit.
        looks_K = torch.tensor([*costs, 0.0], **exactly).cumsum(0)
        rows_B = torch.arange(logits_KBC.shape[1], device=logits_KBC.device)
        trials = []
        for threshold in _thresholds(logits_KBC, self.rule):
            criterion = Criterion(self.rule.kind, threshold, self.rule.tolerance, self.rule.label_thresholds)
            taken_B = taken_exits(logits_KBC, criterion)
            average = float(depths_K[taken_B].mean())
            cost = average + float(looks_K[taken_B].mean())
            trials.append(ThresholdTrial(criterion, average, cost, self.score(logits_KBC[taken_B, rows_B])))
        return trials


def _thresholds(logits_JBC: torch.Tensor, rule: SearchRule) -> list[float]:
    """What is worth trying: never, always, and between them places where no row is, so that rounding moves none to another exit."""
    if rule.kind == "patience":
        return [float(count) for count in range(1, len(logits_JBC) + 1)]
    measure = normalised_entropy if rule.kind == "entropy" else confidence
    of_exits = logits_JBC[:-1].double()
    said = measure(least_sure(of_exits) if rule.label_thresholds else of_exits).flatten().sort().values
    between = (said[1:] + said[:-1]) / 2
    places = torch.linspace(0, len(between) - 1, min(_TRIED, len(between)), device=said.device).round().long()
    return sorted({0.0, 1.0, *between[places].clamp(0, 1).tolist()})
