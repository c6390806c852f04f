"""The search itself: what needs no training, then ever faster shapes, each with exits where these are worth it, then what the sampler proposes.

At every speed shapes of several depths learn for a quarter of their passes; the best of them learns on, the others stop there (successive
halving, Jamieson and Talwalkar 2016, with one rung).
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

from hf_albert_plus.eval.resampling import Sample
from hf_albert_plus.eval.targets import Target

from ..errors import AlbertPlusError
from ..records.progress import say
from .clock import Clock
from .descent import Descent, around, depths
from .leaving_early import is_worth_it, shape_leaves_early, teacher_leaves_early
from .ledger import Ledger
from .narrow_embeddings import embedding_that_fits
from .pick import Measured, answers_of, is_within, score_of
from .shapes import Slimmed, can_share, shape_of_time
from .shapes import Work as EncoderWork
from .study_log import StudyLog, TriedProposal
from .time_left import OutOfTime
from .tried import BEGUN, TEACHER, TRIMMED, Tried, name_of_student
from .workshop import RUNTIME

# A seventieth of the teacher's time is what embeddings and the graph's own steps leave.
_FASTEST = 1 / 70
# Of the differences between layers that share a block.
_RANK = 16
# The directories of a candidate's export and paces, by that of what was exported.
_MODEL = {"taught": "model", "begun": "begun-model"}
_PACES = {"taught": "paces", "begun": "begun-paces"}
# Proposals in a row that improve nothing end a search.
_IDLE = 3
# Proposals in a row of what was tried or cannot be: there is nothing new.
_DECLINED = 25


@dataclass(frozen=True)
class Begun:
    """A shape after its first passes.

    Attributes:
        worth: its score, its sign turned where less is better.
        answers: in torch.
        ms: that a text is predicted to take.
    """

    shape: Slimmed
    worth: float
    answers: Sample
    ms: float


@dataclass
class Hunt(Ledger):
    """One search.

    Attributes:
        begun: the shapes that learned for their first passes.
        ended: why it did.
        is_stopped: by Ctrl-C.
    """

    begun: dict[str, Begun] = field(default_factory=dict)
    ended: str = ""
    is_stopped: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gains: list[float] = []
        self.depths = depths(self.config.num_hidden_layers)

    def run(self) -> None:
        """Tries candidates until nothing is left that is worth it, the time is spent, or Ctrl-C is pressed."""
        try:
            with self.workshop.ctrl_c:
                self._spend()
        except KeyboardInterrupt:
            self.ended, self.is_stopped = "it was stopped", True
        say(f"search ended: {self.ended}")

    def _spend(self) -> None:
        """Tries candidates as long as there is time; what is left then is for what has only begun."""
        try:
            self._try_all()
        except OutOfTime:
            self.ended = "the time was spent"
            with suppress(OutOfTime):
                self._measure_begun()

    def _try_all(self) -> None:
        self._export_teacher()
        self._export_trimmed()
        if self.workshop.settings.exits and self.config.num_hidden_layers > 1:
            teacher_leaves_early(self)
        self._teach_students()
        self._measure_shapes()
        self._open_log()
        if self.budget.seeks_speed:
            self._descend()
        else:
            self._try_speed(self.clock.slowest_ms(self.budget))
        self._leave_early((self.of_holding() if self.budget.seeks_speed else self.shapes())[:2])
        self._follow_proposals()

    def _export_teacher(self) -> None:
        """The teacher in int8: the candidate that needs no training, and the clock that all others are timed beside."""
        shop = self.workshop
        directory = shop.export(shop.teacher, shop.out / TEACHER / "model")
        target, torch = Target("clock", directory, RUNTIME), Target("torch", shop.teacher, "torch")
        own = shop.paces(target, shop.out / TEACHER / "paces", baseline=torch)
        self.clock = Clock(target, shop.settings.traffic, EncoderWork.of(self.config), own)
        self.keep(TEACHER, "all layers, no training", directory, RUNTIME, paces=None)

    def _export_trimmed(self) -> None:
        """What the teacher is with the pieces that its task uses, where the file has to be smaller: it needs no training either."""
        shop = self.workshop
        if shop.guide == shop.teacher:
            return
        directory = shop.export(shop.guide, shop.out / TRIMMED / "model")
        paces = shop.paces(
            Target("candidate", directory, RUNTIME), shop.out / TRIMMED / "paces", baseline=self.clock.target
        )
        words = "all layers, the pieces that the task uses, no training"
        self.keep(TRIMMED, words, directory, RUNTIME, paces=paces)

    def _teach_students(self) -> None:
        """The students that were given, as candidates of their own."""
        for student in self.workshop.settings.student:
            self.time.afford(self.time.learning_s(1))
            name = name_of_student(student)
            taught = self.workshop.teach(name, student)
            self._measure(name, f"the student {Path(student).name}", taught, shape=None)

    def _measure_shapes(self) -> None:
        """Times two shapes without training, a thin and a flat one, as a start for what is predicted."""
        layers = self.config.num_hidden_layers
        for shape in dict.fromkeys([Slimmed(layers, 0.3), Slimmed(max(1, layers // 3), 1.0)]):
            self.time.afford(0)
            folder = self.workshop.out / "shapes" / shape.name
            cut = self.workshop.cut_to_be_timed(shape)
            try:
                model = self.workshop.export(cut, folder / "model")
            except AlbertPlusError as error:  # a model that has not learned again may differ too much in int8
                say(f"{shape.in_words()}: not timed ({error})")
                continue
            paces = self.workshop.paces(Target("shape", model, RUNTIME), folder / "paces", baseline=self.clock.target)
            self.clock.learn(shape, paces)

    def _open_log(self) -> None:
        slowest = self.clock.ms
        self.log = StudyLog(
            self.workshop.out.parent,
            layers=self.config.num_hidden_layers,
            slowest=slowest,
            fastest=_FASTEST * slowest,
            seed=self.workshop.settings.seed,
            asked=self.budget.in_words(),
        )

    def _descend(self) -> None:
        slowest = self.clock.ms
        descent = Descent(slowest=min(slowest, self.clock.slowest_ms(self.budget) / 0.6), fastest=_FASTEST * slowest)
        for measured in self._take_up():
            descent.tell(self.clock.ms_of(measured.speedup), holds=self.holds(measured.name))
        if descent.held is None:
            # The first, mild cut is of all layers, where width was never seen to lose more. Depths are compared after it.
            self.depths = self.depths[:1]
        while (ms := descent.next_ms) is not None:
            name = self._try_speed(ms)
            holds = name is not None and self.holds(name)
            descent.tell(ms, holds=holds)
            if holds:
                self._leave_early(self.of_holding()[:1])

    def _take_up(self) -> list[Measured]:
        """Shapes that a search for another budget taught in this folder: they cost no time of this one's."""
        shop = self.workshop
        began, before = datetime.now(timezone.utc).isoformat(timespec="seconds"), len(shop.records)
        for shape in self.log.of_others:
            if shape.base is None or shape.base in shop.taught:
                self._learn_all(self._learn_first(shape, ms=self.clock.predicted_ms(shape)))
                shop.saved_s.append(sum(record.seconds for record in shop.records[before:] if record.finished < began))
                before = len(shop.records)
        names = {shape.name for shape in self.log.of_others}
        return [each for each in self.finished if each.name in names]

    def _leave_early(self, shapes: list[Measured]) -> None:
        """Exits on shapes that have learned, where they are worth it on the teacher that these are cut from."""
        if is_worth_it(self):
            for measured in shapes:
                shape_leaves_early(self, measured.name)

    def _try_speed(self, ms: float) -> str | None:
        """Compares shapes that are predicted to take `ms`, and finishes the best; its name, or None where no shape is so fast."""
        shapes = [
            self._sized(shape)
            for layers in self.depths
            if (shape := shape_of_time(layers, time=ms, predicted=self.clock.predicted_ms)) is not None
        ]
        shapes += self._shared(ms)
        if not shapes:
            return None
        self.time.afford(self.time.learning_s(0.25))
        self.workshop.ahead(self.workshop.begin, shapes)
        all_begun = [self._begin(shape, ms=ms) for shape in shapes]
        best = shapes[0] if len(shapes) == 1 else min(shapes, key=self._divergence)
        known = depths(self.config.num_hidden_layers)
        self.depths = known if len(self.depths) == 1 else around(best.layers, known)
        for begun in all_begun:
            if begun.shape != best:
                self._stop(begun, why=f"{best.in_words()} came nearer to the teacher as fast")
        self._finish(self.begun[best.name])
        return best.name

    def _shared(self, ms: float) -> list[Slimmed]:
        """Where the file must be small, also as many whole layers as are so fast, all of which share one block but for differences of low
        rank: what they save is left for wider embeddings."""
        if self.budget.max_bytes is None or not can_share(self.config):
            return []
        for layers in range(self.config.num_hidden_layers, 1, -1):
            shape = Slimmed(layers, 1.0, rank=_RANK)
            if self.clock.predicted_ms(shape) <= ms:
                return [self._sized(shape)]
        return []

    def _sized(self, shape: Slimmed) -> Slimmed:
        """The shape with embeddings as narrow as the file must be, cut from the fastest candidate that holds and has all of it: what learned
        with less again has less to recover than what loses all at once."""
        if self.budget.max_bytes is not None:
            narrow = embedding_that_fits(shape, self.config, max_bytes=self.budget.max_bytes)
            shape = replace(shape, embedding_size=narrow)
        taught = self.workshop.taught
        bases = (each for each in self.of_holding() if shape.can_be_cut_from(taught[each.name][0]))
        fastest = next(bases, None)
        return shape if fastest is None else replace(shape, base=fastest.name)

    def _begin(self, shape: Slimmed, *, ms: float) -> Begun:
        """A shape after its first passes, if there is time for them."""
        self.time.afford(self.time.learning_s(0.25))
        return self._learn_first(shape, ms=ms)

    def _learn_first(self, shape: Slimmed, *, ms: float) -> Begun:
        self.log.begin(shape, ms=ms)
        learned = self.workshop.begin(shape)
        scores = self.workshop.score(Target("begun", learned, "torch"), self.workshop.out / shape.name / "begun-scores")
        worth = self._worth(score_of(scores, self.task.metrics[0]))
        say(f"  {shape.in_words()}: {self._said(worth)} after a quarter of its passes")
        begun = Begun(shape, worth, answers_of(scores, self.task), ms)
        self.begun[shape.name] = begun
        return begun

    def _divergence(self, shape: Slimmed) -> float:
        """How far a shape is from the teacher after its first passes."""
        folder = self.workshop.out / shape.name
        divergence = self.workshop.divergence(folder / "begun", folder / "begun-divergence")
        say(f"  {shape.in_words()}: {divergence:.4g} away from the teacher's answers")
        return divergence

    def _stop(self, begun: Begun, *, why: str) -> None:
        score = self._worth(begun.worth)
        self.log.stop(begun.shape, score=score, why=why)
        self.stop(begun.shape, score=score, why=why)

    def _finish(self, begun: Begun) -> None:
        """Has a shape learn the rest, if there is time for it, and measures it."""
        if begun.shape.name not in {each.name for each in self.finished}:
            self.time.afford(self.time.learning_s(0.75))
            self._learn_all(begun)

    def _learn_all(self, begun: Begun) -> None:
        shape = begun.shape
        taught = self.workshop.finish(shape)
        tried = self._measure(shape.name, shape.in_words(), taught, shape=shape)
        self.gains.append(self._worth(tried.score) - begun.worth)
        assert tried.measured is not None
        lost = self.losses[tried.name].points
        self.log.finish(shape, score=tried.score, speedup=tried.measured.speedup, lost=lost)

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

    def _measure_begun(self) -> None:
        """Candidates of what has learned for its first passes alone, where that is within the budget and faster than all that is finished:
        the time has ended before they could learn the rest. The fastest first, until one holds."""
        for begun in sorted(self.begun.values(), key=lambda each: each.ms):
            shape = begun.shape
            if shape.name in self.names() or not self._is_of_use(begun):
                continue
            self.time.afford(self.time.measuring_s())
            name, learned = f"{shape.name}{BEGUN}", self.workshop.begin(shape)
            self.workshop.taught[name] = (shape, learned)
            tried = self._measure(name, f"{shape.in_words()}, a quarter of its passes", learned, shape=shape)
            if self.budget.seeks_speed and self.holds(tried.name):
                return

    def _is_of_use(self, begun: Begun) -> bool:
        best, lost = self.best(), self.judge.loss(begun.answers)
        if not self.budget.seeks_speed:
            return best is None or -lost.points > best
        return is_within(lost, self.budget) and (best is None or begun.ms < self.clock.ms_of(best))

    def _follow_proposals(self) -> None:
        """Shapes that Optuna's sampler proposes, until some in a row improve nothing; those of earlier runs first. What is slower than the
        fastest shape that holds, or than what is asked, is not tried."""
        idle = declined = 0
        taught = self.workshop.taught
        # By another budget what a proposal was cut from may not have been made.
        earlier = (each for each in self.log.earlier if each.shape is None or each.shape.base in (None, *taught))
        while idle < _IDLE and declined < _DECLINED:
            before = self.best()
            proposal = next(earlier, None) or self._propose()
            shape, ms = proposal.shape, proposal.ms
            if shape is None:
                declined += 1
                continue
            declined = 0
            begun = self._begin(shape, ms=ms)
            if self._is_hopeless(begun.worth):
                self._stop(begun, why="it was not to be expected that it would hold")
            else:
                self._finish(begun)
                self._leave_early([each for each in self.of_holding() if each.name == shape.name])
            idle = 0 if self.best() != before else idle + 1
        self.ended = f"{_IDLE} proposals in a row improved nothing" if idle == _IDLE else "nothing new was proposed"

    def _propose(self) -> TriedProposal:
        """What is to be tried of a new proposal; no shape where none of that depth takes so long, or where it was tried."""
        proposal = self.log.propose()
        ms = min(proposal.ms, self._slowest_of_use())
        shape = shape_of_time(proposal.layers, time=ms, predicted=self.clock.predicted_ms)
        if shape is None or self._sized(shape).name in self.names():
            self.log.decline("no shape of this depth takes so long, or it was tried")
            return TriedProposal(None, ms)
        return TriedProposal(self._sized(shape), ms)

    def _slowest_of_use(self) -> float:
        """Milliseconds a text of the fastest shape that holds, or what the budget asks where none does."""
        holding = self.of_holding()
        if not holding:
            return self.clock.slowest_ms(self.budget)
        return min(self.clock.slowest_ms(self.budget), self.clock.ms_of(holding[0].speedup))

    def _is_hopeless(self, begun: float) -> bool:
        """Whether a shape would lose too much even with what others gained after their first passes."""
        if self.budget.max_drop is None or not self.gains:
            return False
        teacher = self._worth(score_of(self.teacher_scores, self.task.metrics[0]))
        return begun + median(self.gains) < teacher - self.budget.max_drop

    def _worth(self, score: float) -> float:
        return -score if self.task.is_scored_by_error else score

    def _said(self, worth: float) -> str:
        return f"{self._worth(worth):.1f}"
