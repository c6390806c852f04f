"""The clock of a search: the teacher in int8, beside which candidates are timed in turns, and what their times teach of others'."""

from dataclasses import dataclass, field
from typing import Any

from hf_albert_plus.eval.targets import Target

from .paces import Paces
from .predicted_time import Pace, PredictedTime
from .settings import Budget, Traffic
from .shapes import Slimmed, Work
from .tried import TEACHER
from .workshop import RUNTIME, Workshop

# Shapes are sought at this share of the time that is asked for, as a prediction may be some percent off.
_PREDICTED = 0.9


@dataclass
class Clock:
    """The teacher in int8.

    Attributes:
        target: what is timed.
        traffic: which speed counts.
        work: of its encoder.
        own: its paces beside the teacher in torch.
        known: the times of shapes.
        fitted: to these, what predicts the times of others.
    """

    target: Target
    traffic: Traffic
    work: Work
    own: Paces
    known: list[Pace] = field(default_factory=list)
    fitted: PredictedTime = field(init=False)

    def __post_init__(self) -> None:
        self._learn(self.work, self.ms)

    @classmethod
    def of(cls, shop: Workshop, config: Any) -> "Clock":
        """Exports the teacher and times it, unless that was done.

        Args:
            config: of the teacher as an ALBERT-plus model.
        """
        folder = shop.out / TEACHER
        target = Target("clock", shop.export(shop.teacher, folder / "model"), RUNTIME)
        own = shop.paces(target, folder / "paces", baseline=Target("torch", shop.teacher, "torch"))
        return cls(target, shop.settings.traffic, Work.of(config), own)

    @property
    def torch_ms(self) -> float:
        """The teacher's own milliseconds a text in torch, in batches."""
        return self.own.batches_ms * self.own.batches_ratio

    @property
    def ms(self) -> float:
        """Its milliseconds a text of the traffic that counts."""
        return self.own.alone_ms if self.traffic == "alone" else self.own.batches_ms

    def _ratio(self, paces: Paces) -> float:
        """Times the baseline's pace at the traffic that counts."""
        return paces.alone_ratio if self.traffic == "alone" else paces.batches_ratio

    def speedup(self, paces: Paces | None) -> float:
        """That of a candidate over the teacher in torch: beside the clock times the clock's own.

        Args:
            paces: the candidate's beside the clock; None for the clock itself.
        """
        return self._ratio(self.own) * (1.0 if paces is None else self._ratio(paces))

    def latency_ms(self, paces: Paces | None) -> float:
        """A candidate's median of one text at a time; the clock's own without paces."""
        return self.own.alone_ms / (1.0 if paces is None else paces.alone_ratio)

    def learn(self, shape: Slimmed, paces: Paces) -> None:
        """Keeps the milliseconds that a text took in a shape, beside the clock."""
        self._learn(self.work.slimmed(shape), self.ms / self._ratio(paces))

    def _learn(self, work: Work, ms: float) -> None:
        self.known.append(Pace(work, ms))
        self.fitted = PredictedTime.fitted(self.known)

    def predicted_ms(self, shape: Slimmed) -> float:
        """The milliseconds that a text will take in a shape."""
        return self.fitted.of(self.work.slimmed(shape))

    def slowest_ms(self, budget: Budget) -> float:
        """What a shape may be predicted to take of a text, so that it will be as fast as a budget asks, and faster than the teacher."""
        asked = [self.ms]
        if budget.min_speedup is not None:
            asked.append(_PREDICTED * self.ms * self._ratio(self.own) / budget.min_speedup)
        if budget.max_latency_ms is not None:
            asked.append(_PREDICTED * self.ms * budget.max_latency_ms / self.own.alone_ms)
        return min(0.97 * self.ms, *asked)

    def ms_of(self, speedup: float) -> float:
        """The milliseconds a text of a speedup over the teacher in torch."""
        return self.ms * self._ratio(self.own) / speedup
