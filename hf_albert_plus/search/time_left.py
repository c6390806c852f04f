"""The time of a search: what its stages took so far, and whether a step more has room in what is left."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from ..records.record import Record
from .workshop import FIRST_SHARE, Workshop

# What measures a candidate that has learned: its export, its paces, and its answers.
_MEASURING = ("export", "paces", "eval")
# No shape learns so many times as fast as others do in the mean.
_FASTEST = 5


class OutOfTime(Exception):
    """The next step would take longer than the search may."""


@dataclass(frozen=True)
class TimeLeft:
    """The time of one search.

    Attributes:
        budget_s: seconds that it may take.
        kept_s: gives those of them that are kept for what comes last.
    """

    workshop: Workshop
    budget_s: float
    kept_s: Callable[[], float] = float

    @property
    def left_s(self) -> float:
        return self.budget_s - self.kept_s() - self.workshop.spent_s

    def afford(self, seconds: float) -> None:
        """Ends the search where a step would take longer than what is left.

        Raises:
            OutOfTime: it would.
        """
        if seconds > self.left_s:
            raise OutOfTime

    def learning_s(self, share: float) -> float:
        """What a share of a candidate's passes has taken so far, in the mean; before any was made, what the teacher's pace lets expect. Exits
        are none: they learn alone, on fewer rows."""
        taken = [record for record in self._records("distill") if not is_of_exits(record)]
        made = sum(map(_passes_in_its_seconds, taken))
        passes = self.workshop.passes
        return share * passes.count * (sum(record.seconds for record in taken) / made if made else passes.seconds)

    def pass_s(self, learned: Path) -> float:
        """What a pass takes of what a candidate learned last: as long as it took then, or as others' in the mean where its time tells little, as it was
        killed in its midst or at its end."""
        record, mean_s = self.workshop.record_of(learned), self.learning_s(1.0) / self.workshop.passes.count
        if any(phase["resumed_at_step"] for phase in record.result.get("phases", {}).values()):
            return mean_s
        return max(record.seconds / _passes_in_its_seconds(record), mean_s / _FASTEST)

    def beginning_s(self) -> float:
        """What it takes to cut a candidate, its first passes, and the scores that they are judged by."""
        return self._median_s("prune") + self.learning_s(FIRST_SHARE) + self._median_s("eval")

    def finishing_s(self) -> float:
        """What the rest of its passes takes, and what it is measured by."""
        return self.learning_s(1 - FIRST_SHARE) + self.measuring_s()

    def exits_s(self) -> float:
        """What exits on a candidate took so far, in the median; before any were made, what the teacher's pace lets expect."""
        taken = [record.seconds for record in self._records("distill") if is_of_exits(record)]
        return median(taken) if taken else self.workshop.passes.exits_s

    def calibrating_s(self) -> float:
        """What it took to find a threshold, in the median."""
        return self._median_s("calibrate")

    def measuring_s(self) -> float:
        """What it took to measure a candidate, each of its steps in the median."""
        return sum(map(self._median_s, _MEASURING))

    def _median_s(self, stage: str) -> float:
        return median([record.seconds for record in self._records(stage)] or [0.0])

    def _records(self, stage: str) -> list[Record]:
        return [record for record in self.workshop.records if record.stage == stage]


def _passes_in_its_seconds(record: Record) -> float:
    """The passes that the seconds of a distillation were taken by: after it was killed and went on, those of the run that finished it."""
    phases = record.result.get("phases", {}).values()
    steps, resumed = (sum(phase[name] for phase in phases) for name in ("steps", "resumed_at_step"))
    return float(record.settings.get("epochs", 0)) * (1 - resumed / steps if steps else 1.0)


def is_of_exits(record: Record) -> bool:
    """Whether a distillation taught exits alone."""
    return record.settings.get("phases") == ["exits"]
