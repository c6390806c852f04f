"""What a search knows of its candidates: what each says, loses and takes, and which of them hold."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from hf_albert_plus.eval.measured_documents import Scores
from hf_albert_plus.eval.metrics import measure_text
from hf_albert_plus.eval.targets import Target

from ..config_files import load_config
from ..records.progress import say
from .clock import Clock
from .paces import Paces
from .pick import Judge, Loss, Measured, affords, answers_of, is_within, loss_text, score_of
from .settings import Budget
from .time_left import TimeLeft
from .tried import Tried
from .workshop import Workshop


@dataclass
class Ledger:
    """The candidates of one search.

    Attributes:
        teacher_scores: of the teacher in torch fp32.
        tried: every candidate, in the order in which it was tried.
        losses: name -> what a finished candidate loses.
        clock: what the speeds are measured by; the search sets it, with its first candidate.
    """

    workshop: Workshop
    budget: Budget
    time_budget_s: float
    teacher_scores: Scores
    tried: list[Tried] = field(default_factory=list)
    losses: dict[str, Loss] = field(default_factory=dict)
    clock: Clock = field(init=False)

    def __post_init__(self) -> None:
        shop = self.workshop
        self.task = shop.task
        self.config = load_config(shop.whole, option="TEACHER")
        self.judge = Judge(shop.task, answers_of(self.teacher_scores, shop.task), seed=shop.settings.seed)
        self.time = TimeLeft(shop, self.time_budget_s)

    @property
    def finished(self) -> list[Measured]:
        return [each.measured for each in self.tried if each.measured is not None]

    def names(self) -> set[str]:
        return {each.name for each in self.tried}

    def keep(
        self,
        name: str,
        words: str,
        directory: Path,
        runtime: str,
        *,
        paces: Paces | None,
    ) -> Tried:
        """Scores a finished candidate and says how it fares.

        Args:
            paces: its own beside the clock; None of the clock itself.
        """
        shop = self.workshop
        scores = shop.score(Target("candidate", directory, runtime), directory.with_name(f"{directory.name}-scores"))
        speedup = self.clock.speedup(paces)
        measured = Measured(
            name=name,
            answers=answers_of(scores, self.task),
            speedup=speedup,
            latency_ms=self.clock.latency_ms(paces),
            file_bytes=(paces or self.clock.own).file_bytes,
        )
        tried = Tried(name, words, score_of(scores, self.task.metrics[0]), directory, runtime, measured=measured)
        self.tried = [each for each in self.tried if each.name != name] + [tried]
        lost = self.losses[name] = self.judge.loss(measured.answers)
        bound = "" if lost.at_most is None else f", with 90 % confidence at most {loss_text(lost.at_most, self.task)}"
        say(
            f"  {words}: {self.said(tried.score)}, {loss_text(lost.points, self.task)} lost{bound}; {speedup:.1f}x, {measured.file_bytes / 1e6:.1f} MB"
        )
        return tried

    def stop(self, name: str, words: str, *, score: float | None, why: str) -> None:
        """Notes a candidate that is not gone on with.

        Args:
            score: after its first passes; None where it has none.
        """
        if name not in self.names():
            self.tried.append(Tried(name, words, score, why=why))

    def worth(self, score: float | None) -> float:
        """A score, its sign turned where less is better; what is undefined is worth less than all else."""
        if score is None:
            return -math.inf
        return -score if self.task.is_scored_by_error else score

    def said(self, score: float | None) -> str:
        """A score in words."""
        return measure_text(self.task.metrics[0], score, decimals=1)

    def holds(self, name: str) -> bool:
        """Whether a finished candidate loses no more than it may, with confidence."""
        return is_within(self.losses[name], self.budget)

    def keeps_within(self, measured: Measured) -> bool:
        """Whether a finished candidate keeps within all that is asked, where the fastest that does is sought."""
        return self.holds(measured.name) and affords(measured, self.budget)

    def leader(self) -> Measured | None:
        """The fastest that keeps within the budget; where speed is given and not sought, what loses least."""
        if self.budget.seeks_speed:
            return max(filter(self.keeps_within, self.finished), key=lambda each: each.speedup, default=None)
        sound = (each for each in self.finished if math.isfinite(self.losses[each.name].rank))
        afforded = (each for each in sound if affords(each, self.budget))
        return min(afforded, key=lambda each: self.losses[each.name].rank, default=None)

    def best(self) -> float | None:
        """The leader's speedup; where speed is given and not sought, what it loses, the sign turned."""
        leader = self.leader()
        if leader is None:
            return None
        return leader.speedup if self.budget.seeks_speed else -self.losses[leader.name].rank

    def shapes(self) -> list[Measured]:
        """The shapes that learned all that they are given, without exits, the fastest first."""
        taught = [each for each in self.finished if each.name in self.workshop.taught]
        return sorted(taught, key=lambda each: -each.speedup)

    def of_holding(self) -> list[Measured]:
        """Those of them that hold."""
        return [each for each in self.shapes() if self.holds(each.name)]

    def held(self, name: str) -> list[Measured]:
        """The one of them that has a name, if it is one."""
        return [each for each in self.of_holding() if each.name == name]
