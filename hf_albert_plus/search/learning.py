"""Candidates that learn: a quarter of their passes, by which shapes of one speed are compared, then the rest, after which they are measured;
the rest waits where a shape holds already. What cannot be made or exported is noted and left; the search goes on without it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hf_albert_plus.eval.resampling import Sample
from hf_albert_plus.eval.targets import Target

from ..records.progress import say
from .ledger import Ledger
from .narrow_embeddings import fits
from .pick import Measured, answers_of, is_within, score_of
from .setbacks import SETBACKS
from .shapes import Slimmed
from .study_log import StudyLog
from .taken_up import FirstSeen, first_seen
from .tried import Tried, has_only_begun, name_as_begun, name_of_student
from .workshop import RUNTIME

# The directories of a candidate's export and paces, by that of what was exported.
_MODEL = {"taught": "model", "begun": "begun-model"}
_PACES = {"taught": "paces", "begun": "begun-paces"}


@dataclass(frozen=True)
class Begun:
    """A shape after its first passes.

    Attributes:
        score: by the task's first metric; None where it is undefined.
        answers: in torch.
        ms: that a text is predicted to take.
    """

    shape: Slimmed
    score: float | None
    answers: Sample
    ms: float


@dataclass
class Learning(Ledger):
    """The candidates of one search, and how they learn.

    Attributes:
        begun: the shapes that learned for their first passes.
        gains: what the others of their passes gave to those that went on, the higher the better.
        log: Optuna's study; the search opens it before the first shape learns.
    """

    begun: dict[str, Begun] = field(default_factory=dict)
    gains: list[float] = field(default_factory=list)
    log: StudyLog = field(init=False)

    def teach_students(self) -> None:
        """The students that were given, as candidates of their own."""
        for student in self.workshop.settings.student:
            self.time.afford(self.time.learning_s(1))
            name, words = name_of_student(student), f"the student {Path(student).name}"
            with self._or_left(name, words):
                self._measure(name, words, self.workshop.teach(name, student), shape=None)

    def take_up(self, shapes: Sequence[Slimmed]) -> list[Measured]:
        """Shapes that an earlier search taught in this folder, and this one has not tried, or not taught: they cost no time of it."""
        shop, finished = self.workshop, {each.name for each in self.finished}
        shapes = [
            shape
            for shape in shapes
            if shape.name not in finished
            and (shop.was_taught(shape.name) or (shop.was_made(shop.begun(shape.name)) and not self._was_tried(shape)))
        ]
        for shape in shapes:
            seen = self.first_seen(shape.name)
            is_known = seen.taught or shape.name not in self.log.left
            if is_known and shape.base in (None, *shop.taught) and self.has_room_for(shape):
                with self.without_cost(before=seen.at):
                    begun = self._learn_first(shape, ms=self.clock.predicted_ms(shape))
                    if begun is not None:
                        # What leads may have been a base after its first passes, before it learned the rest.
                        shop.taught.setdefault(name_as_begun(shape.name), (shape, shop.begin(shape)))
                        (self._learn_all if seen.taught else self._measure_begun)(begun)
        names = {name for shape in shapes for name in (shape.name, name_as_begun(shape.name))}
        return [each for each in self.finished if each.name in names]

    def first_seen(self, name: str) -> FirstSeen:
        """What there was of a candidate when a search for this budget first came upon it."""
        return first_seen(name, self.workshop, asked=self.budget.in_words())

    @contextmanager
    def without_cost(self, *, before: str) -> Iterator[None]:
        """What is found done inside of this context, and was made before a time, takes none of this search's."""
        shop = self.workshop
        known = len(shop.records)
        try:
            yield
        finally:
            shop.saved_s.append(sum(record.seconds for record in shop.records[known:] if record.finished < before))

    def has_room_for(self, shape: Slimmed) -> bool:
        """Whether the file of a shape is as small as is asked."""
        most = self.budget.max_bytes
        return most is None or fits(shape, self.config, max_bytes=most, width=shape.embedding_size)

    def begin(self, shape: Slimmed, *, ms: float) -> Begun | None:
        """A shape after its first passes, if there is time for them; None where it cannot be made."""
        self.time.afford(self.time.beginning_s())
        return self._learn_first(shape, ms=ms)

    def divergence(self, begun: Begun) -> float:
        """How far a shape is from the teacher after its first passes."""
        folder = self.workshop.out / begun.shape.name
        divergence = self.workshop.divergence(folder / "begun", folder / "begun-divergence")
        say(f"  {begun.shape.in_words()}: {divergence:.4g} away from the teacher's answers")
        return divergence

    def leave(self, begun: Begun, *, why: str) -> None:
        """Notes a shape that is not gone on with."""
        self.log.stop(begun.shape, score=begun.score, why=why)
        self.stop(begun.shape.name, begun.shape.in_words(), score=begun.score, why=why)

    def finish(self, begun: Begun) -> None:
        """Has a shape learn the rest, if there is time for it, and measures it."""
        if begun.shape.name not in {each.name for each in self.finished}:
            self.time.afford(self.time.finishing_s())
            self._learn_all(begun)

    def hold_as_begun(self, begun: Begun) -> str | None:
        """The name of the candidate that a shape is after its first passes, if it holds by then; None where it does not, or learned the rest."""
        shape = begun.shape
        if shape.name in self.losses or not is_within(self.judge.loss(begun.answers), self.budget):
            return None
        self.time.afford(self.time.measuring_s())
        tried = self._measure_begun(begun)
        if tried is None or tried.measured is None or not self.holds(tried.name):
            return None
        lost, worth = self.losses[tried.name].points, self.worth(tried.score)
        self.log.finish(shape, score=worth, speedup=tried.measured.speedup, lost=lost)
        return tried.name

    def waiting_leader(self) -> Begun | None:
        """The fastest shape that holds, if the rest of its passes waits."""
        leader = next(iter(self.of_holding()), None)
        if leader is None or not has_only_begun(leader.name):
            return None
        shape, _ = self.workshop.taught[leader.name]
        return None if shape.name in self.names() else self.begun[shape.name]

    def measure_begun(self) -> None:
        """Candidates of what has learned for its first passes alone, where that is within the budget and faster than all that is finished:
        the time has ended before they could learn the rest. The fastest first, until one holds."""
        for begun in sorted(self.begun.values(), key=lambda each: each.ms):
            if self._was_tried(begun.shape) or not self._is_of_use(begun):
                continue
            self.time.afford(self.time.measuring_s())
            tried = self._measure_begun(begun)
            if tried is not None and tried.measured is not None and self.keeps_within(tried.measured):
                return

    def learn_on(self, shape: Slimmed, *, source: Path, name: str, passes: float) -> Tried | None:
        """The candidate that a shape is after so many passes more; None where it cannot be made.

        Args:
            source: what it is after those that it learned before.
            name: of the candidate.
        """
        words = f"{shape.in_words()}, {passes:g} passes more"
        with self._or_left(name, words):
            learned = self.workshop.learn_on(shape, source=source, name=name, passes=passes)
            return self._measure(name, words, learned, shape=shape)
        return None

    def _measure_begun(self, begun: Begun) -> Tried | None:
        """The candidate that a shape is after its first passes; None where it cannot be made."""
        shape = begun.shape
        name, words = name_as_begun(shape.name), f"{shape.in_words()}, a quarter of its passes"
        learned = self.workshop.begin(shape)
        self.workshop.taught[name] = (shape, learned)
        with self._or_left(name, words):
            return self._measure(name, words, learned, shape=shape)
        return None

    def _learn_first(self, shape: Slimmed, *, ms: float) -> Begun | None:
        self.log.begin(shape, ms=ms)
        with self._or_left(shape.name, shape.in_words(), logged=shape):
            learned = self.workshop.begin(shape)
            folder = self.workshop.out / shape.name
            scores = self.workshop.score(Target("begun", learned, "torch"), folder / "begun-scores")
            score = score_of(scores, self.task.metrics[0])
            say(f"  {shape.in_words()}: {self.said(score)} after a quarter of its passes")
            self.begun[shape.name] = Begun(shape, score, answers_of(scores, self.task), ms)
            return self.begun[shape.name]
        return None

    def _learn_all(self, begun: Begun) -> None:
        shape = begun.shape
        with self._or_left(shape.name, shape.in_words(), logged=shape):
            tried = self._measure(shape.name, shape.in_words(), self.workshop.finish(shape), shape=shape)
            if shape.rounds == 1:
                self.gains.append(self.worth(tried.score) - self.worth(begun.score))
            assert tried.measured is not None
            lost, worth = self.losses[tried.name].points, self.worth(tried.score)
            self.log.finish(shape, score=worth, speedup=tried.measured.speedup, lost=lost)
            if self.holds(shape.name):
                # It takes the place of what it was.
                self.tried = [each for each in self.tried if each.name != name_as_begun(shape.name)]

    @contextmanager
    def _or_left(self, name: str, words: str, *, logged: Slimmed | None = None) -> Iterator[None]:
        """Notes a candidate that a setback ends, in Optuna's study too where it is a shape of it."""
        try:
            yield
        except SETBACKS as error:
            say(f"  {words}: {error}")
            self.workshop.taught.pop(name, None)
            self.workshop.students.pop(name, None)
            self.stop(name, words, score=None, why=str(error))
            if logged is not None:
                self.log.stop(logged, score=None, why=str(error))

    def _measure(self, name: str, words: str, trained: Path, *, shape: Slimmed | None) -> Tried:
        """Exports, times and scores what has learned.

        Args:
            shape: None for what was not cut from the teacher.
        """
        folder = trained.parent
        model = self.workshop.export(trained, folder / _MODEL[trained.name])
        paces = self.workshop.paces(
            Target("candidate", model, RUNTIME), folder / _PACES[trained.name], baseline=self.clock.target
        )
        # Thin products of shared blocks are no work of the kinds that times are predicted from.
        if shape is not None and shape.rank is None:
            self.clock.learn(shape, paces)
        return self.keep(name, words, model, RUNTIME, paces=paces)

    def _was_tried(self, shape: Slimmed) -> bool:
        return bool({shape.name, name_as_begun(shape.name)} & self.names())

    def _is_of_use(self, begun: Begun) -> bool:
        best, lost = self.best(), self.judge.loss(begun.answers)
        if not self.budget.seeks_speed:
            return best is None or -lost.rank > best
        return is_within(lost, self.budget) and (best is None or begun.ms < self.clock.ms_of(best))
