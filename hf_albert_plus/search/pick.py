"""The choice among candidates, on rows that judge them: what each loses with confidence, and what the choice itself is worth on rows that it
was not made on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Protocol

import numpy

from hf_albert_plus.eval.measured_documents import Scores
from hf_albert_plus.eval.metrics import measure_text
from hf_albert_plus.eval.resampling import Sample, drawn_differences
from hf_albert_plus.eval.scored_rows import sample
from hf_albert_plus.tasks.task import Task

from ..bootstrap import ROUNDING
from .settings import Budget

CONFIDENCE = 0.9
# Tried one after the other until the choice holds on rows that it was not made on.
_STRICTER = (0.9, 0.95, 0.98, 0.995)
_FOLDS = 5


@dataclass(frozen=True)
class Measured:
    """A candidate that is finished.

    Attributes:
        name: its directory's.
        answers: what it says of the rows.
        speedup: over the teacher in torch fp32.
        latency_ms: median of one text at a time.
        file_bytes: of the exported file.
    """

    name: str
    answers: Sample
    speedup: float
    latency_ms: float
    file_bytes: int


@dataclass(frozen=True)
class Loss:
    """What a candidate loses against its teacher.

    Attributes:
        points: of the two scores, above zero where the candidate is worse.
            NaN where either is undefined.
        at_most: what it loses with the confidence that was asked for; None where a draw leaves that undefined, and where it says one thing of
            all rows, which its teacher does not.
        is_constant: it says one thing of all rows, which its teacher does not.
    """

    points: float
    at_most: float | None
    is_constant: bool = False

    @property
    def rank(self) -> float:
        """What candidates are ordered by, the least first; infinite for what is no pick, as it is undefined or constant."""
        return self.points if math.isfinite(self.points) and not self.is_constant else math.inf

    @property
    def bound(self) -> float:
        """What it loses at most, with confidence; infinite where that is undefined."""
        return math.inf if self.at_most is None else self.at_most


@dataclass(frozen=True)
class Pick:
    """What was chosen.

    Attributes:
        name: of the candidate; None where none keeps within the budget.
        confidence: with which it does, on the rows that chose it.
        expected_loss: points that picks of this rule lose on rows that did not choose them; too few rows for folds say what it lost on them
            all; None without a pick, or where it is undefined.
        losses: name -> what each candidate loses.
        is_surest: it loses least of those that keep within, as faster ones lost too much on rows that had not chosen them.
    """

    name: str | None
    confidence: float
    expected_loss: float | None
    losses: dict[str, Loss]
    is_surest: bool = False


class Rule(Protocol):
    """Chooses among candidates, by all rows or by some of them."""

    def __call__(self, *, rows: numpy.ndarray | None = None) -> Measured | None: ...


class Judge:
    """Judges candidates of a task against their teacher.

    Args:
        teacher: what the teacher says of the rows.
        seed: of the draws and folds.
    """

    def __init__(self, task: Task, teacher: Sample, *, seed: int):
        self.task, self.teacher, self.seed = task, teacher, seed
        rows = len(teacher.labels)
        order = numpy.random.default_rng(seed).permutation(rows)
        self.folds = [numpy.sort(part) for part in numpy.array_split(order, _FOLDS)] if rows >= 2 * _FOLDS else []

    def loss(self, answers: Sample, *, confidence: float = CONFIDENCE, rows: numpy.ndarray | None = None) -> Loss:
        """What is lost on the rows, and the bound of its one-sided bootstrap interval, both models drawn together. What seems better than its
        teacher is taken to be as good: it is a part of it, and among many some are lucky on these rows."""
        ours, theirs = (_of_rows(each, rows) for each in (answers, self.teacher))
        found = drawn_differences(ours, theirs, self.task, seed=self.seed)
        sign = 1 if self.task.is_scored_by_error else -1
        points = sign * found.points
        is_constant = _says_one_thing(ours) and not _says_one_thing(theirs)
        is_known = numpy.isfinite(found.draws).all() and not is_constant
        doubt = float(numpy.quantile(sign * found.draws, confidence)) - points if is_known else None
        return Loss(points, None if doubt is None else max(points, 0.0) + doubt, is_constant)

    def choose(self, candidates: Sequence[Measured], budget: Budget) -> Pick:
        """The pick, at the mildest confidence whose picks hold the budget on folds that they were not made on; where none does, the surest of
        those that keep within it, if such picks do.

        The choice among many candidates is what overfits: each fold is judged by the pick of the others, so the loss that is expected
        has the choice in it, however many were tried.
        """
        losses = {each.name: self.loss(each.answers) for each in candidates}
        affordable = [each for each in candidates if affords(each, budget)]
        rules: list[tuple[float, Rule]] = [
            (confidence, partial(self._fastest, affordable, budget, confidence=confidence)) for confidence in _STRICTER
        ]
        surest = partial(self._surest, affordable, budget)
        for confidence, rule in [*rules, (CONFIDENCE, surest)]:
            chosen = rule()
            if chosen is None:
                continue
            expected = self._expected_loss(rule) if self.folds else losses[chosen.name].points
            if budget.max_drop is None or expected <= budget.max_drop + ROUNDING:
                known = round(expected, 4) if math.isfinite(expected) else None
                return Pick(chosen.name, confidence, known, losses, is_surest=rule is surest)
        return Pick(None, CONFIDENCE, None, losses)

    def _fastest(
        self, candidates: Sequence[Measured], budget: Budget, *, confidence: float, rows: numpy.ndarray | None = None
    ) -> Measured | None:
        """The fastest that loses no more than it may; without such a limit the one that loses least."""
        losses = {each.name: self.loss(each.answers, confidence=confidence, rows=rows) for each in candidates}
        if not budget.seeks_speed:
            sound = (each for each in candidates if math.isfinite(losses[each.name].rank))
            return min(sound, key=lambda each: (losses[each.name].rank, -each.speedup), default=None)
        holding = [each for each in candidates if is_within(losses[each.name], budget)]
        return max(holding, key=lambda each: each.speedup, default=None)

    def _surest(
        self, candidates: Sequence[Measured], budget: Budget, *, rows: numpy.ndarray | None = None
    ) -> Measured | None:
        """Of those that lose no more than they may the one that is surest to; of equally sure ones the slowest, which is most like the teacher."""
        losses = {each.name: self.loss(each.answers, rows=rows) for each in candidates}
        holding = [each for each in candidates if is_within(losses[each.name], budget)]
        return min(holding, key=lambda each: (losses[each.name].at_most, each.speedup), default=None)

    def _expected_loss(self, rule: Rule) -> float:
        """What is lost where each fold is answered by the pick of the other folds, and by the teacher where they have none."""
        said = Sample(*(None if part is None else part.copy() for part in _parts(self.teacher)))  # type: ignore[arg-type]
        for fold in self.folds:
            others = numpy.setdiff1d(numpy.arange(len(said.labels)), fold)
            chosen = rule(rows=others)
            if chosen is None:
                continue
            for ours, theirs in zip(_parts(said)[::2], _parts(chosen.answers)[::2], strict=True):
                if ours is not None and theirs is not None:
                    ours[:, fold] = theirs[:, fold]
        return self.loss(said).points


def doubt_of(rows: int, *, differing: float) -> float:
    """Points of accuracy that a candidate as good as its teacher may seem to lose, at the upper end of the one-sided interval, where so many rows judge.

    Args:
        differing: share of the rows of which one of the two is right and the other wrong, half of them either way.
    """
    return 100 * NormalDist().inv_cdf(CONFIDENCE) * math.sqrt(differing / rows)


def loss_text(lost: float, task: Task, *, decimals: int = 1) -> str:
    """What is lost as it is read, without a sign before zero: points to so many decimals, an error to four digits."""
    if not math.isfinite(lost):
        return "undefined"
    return measure_text(
        task.metrics[0], (lost if task.is_scored_by_error else round(lost, decimals)) + 0.0, decimals=decimals
    )


def is_within(loss: Loss, budget: Budget) -> bool:
    """Whether a loss is, with its confidence, no more than a budget allows; never where that has no such limit."""
    return loss.at_most is not None and budget.max_drop is not None and loss.at_most <= budget.max_drop + ROUNDING


def affords(candidate: Measured, budget: Budget) -> bool:
    """Whether a candidate is as fast and as small as is asked."""
    return share_of_asked(candidate, budget) >= 1


def is_small_enough(candidate: Measured, budget: Budget) -> bool:
    """Whether a candidate's file is as small as is asked."""
    return budget.max_bytes is None or candidate.file_bytes <= budget.max_bytes


def share_of_asked(candidate: Measured, budget: Budget) -> float:
    """How fast and small a candidate is over how fast and small it is to be, by what it lacks most."""
    shares = [
        1.0 if budget.min_speedup is None else candidate.speedup / budget.min_speedup,
        1.0 if budget.max_latency_ms is None else budget.max_latency_ms / candidate.latency_ms,
        1.0 if budget.max_bytes is None else budget.max_bytes / candidate.file_bytes,
    ]
    return min(shares)


def _parts(sample: Sample) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray | None]:
    return sample.predicted, sample.labels, sample.logits


def _says_one_thing(sample: Sample) -> bool:
    """Whether each run answers all rows alike."""
    return bool((sample.predicted == sample.predicted[:, :1]).all())


def _of_rows(sample: Sample, rows: numpy.ndarray | None) -> Sample:
    if rows is None:
        return sample
    predicted, labels, logits = _parts(sample)
    return Sample(predicted[:, rows], labels[rows], None if logits is None else logits[:, rows])


def answers_of(scores: Scores, task: Task) -> Sample:
    """What the first row of a document says of its rows."""
    row = scores.rows[0]
    return sample(row.runs, scores.references[row.task], task)


def score_of(scores: Scores, metric: str) -> float | None:
    """The score of the first row of a document; None where it is undefined."""
    return scores.rows[0].metrics[metric]
