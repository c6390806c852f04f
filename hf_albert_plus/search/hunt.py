"""The search itself: what needs no training, then ever faster shapes, each with exits where these are worth it, then what the sampler proposes.

At every speed shapes of several depths learn for a quarter of their passes; the best of them learns on, the others stop there (successive
halving, Jamieson and Talwalkar 2016, with one rung).
"""

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from hf_albert_plus.eval.targets import Target

from ..records.progress import say
from .clock import Clock
from .descent import Descent, around, depths
from .learning import Begun, Learning
from .learning_again import FASTER, gained, misses, next_to_learn_again
from .learning_on import kept_for_learning_on_s, learn_on
from .leaving_early import gain_on_teacher, is_worth_it, leave_early, take_up_exits, teacher_leaves_early
from .narrow_embeddings import embedding_that_fits
from .paces import Paces
from .pick import affords, score_of, share_of_asked
from .setbacks import SETBACKS
from .shapes import Slimmed, can_share, shape_of_time
from .study_log import StudyLog, TriedProposal
from .time_left import OutOfTime
from .tried import TEACHER, TRIMMED, Tried
from .workshop import RUNTIME

# How a search ends that more time would take further.
SPENT = "the time was spent"
# Nothing is faster: embeddings and the graph's own steps take a seventieth of the teacher's time.
_FASTEST = 1 / 70
# Of the differences between layers that share a block.
_RANK = 16
# Proposals in a row that improve nothing end a search.
_IDLE = 6
# Proposals in a row of what was tried or cannot be: there is nothing new.
_DECLINED = 25
# Of the fastest time that holds, what is proposed at most.
_BELOW = 0.9
# How often a shape that came out slower or larger than is asked is followed by a smaller one, which is aimed a little below.
_RETRIES, _AIMED = 4, 0.95


@dataclass
class Hunt(Learning):
    """One search.

    Attributes:
        show: is called with the search whenever a candidate is finished.
        ended: why it did; empty while it goes on.
        is_stopped: by Ctrl-C.
    """

    show: "Callable[[Hunt], object]" = lambda hunt: None
    ended: str = ""
    is_stopped: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.all_depths = depths(self.config.num_hidden_layers)
        self.depths = self.all_depths

    def run(self) -> None:
        """Tries candidates until nothing is left that is worth it, the time is spent, or Ctrl-C is pressed."""
        try:
            with self.workshop.ctrl_c:
                self._spend()
        except KeyboardInterrupt:
            self.ended, self.is_stopped = "it was stopped", True
        say(f"search ended: {self.ended}")

    def _spend(self) -> None:
        """Tries candidates as long as there is time; what is left then is for what was there before and what has only begun, and what was kept for one
        shape that learns on."""
        self.time = replace(self.time, kept_s=partial(kept_for_learning_on_s, self))
        last: list[Callable[[], object]] = [partial(learn_on, self), self._end]
        try:
            self._try_all()
        except OutOfTime:
            self.ended = SPENT
            last = [self._take_up_the_rest, self.measure_begun, *last]
        self.time = replace(self.time, kept_s=float)
        for step in last:
            with suppress(OutOfTime):
                step()

    def _try_all(self) -> None:
        self._export_teacher()
        self._export_trimmed()
        if self.workshop.settings.exits and self.config.num_hidden_layers > 1:
            teacher_leaves_early(self)
        self.teach_students()
        self._measure_shapes()
        self._open_log()
        if self.budget.seeks_speed:
            self._descend()
        else:
            self._try_what_is_asked()
            self._learn_again(slowest_ms=math.inf)
        best_first = sorted(self.shapes(), key=lambda each: self.losses[each.name].rank)
        leave_early(self, (self.of_holding() if self.budget.seeks_speed else best_first)[:2])
        self._follow_proposals()

    def keep(self, name: str, words: str, directory: Path, runtime: str, *, paces: Paces | None) -> Tried:
        tried = super().keep(name, words, directory, runtime, paces=paces)
        self.show(self)
        return tried

    def _export_teacher(self) -> None:
        """The teacher in int8: the candidate that needs no training, and the clock that all others are timed beside."""
        self.clock = Clock.of(self.workshop, self.config)
        self.keep(TEACHER, "all layers, no training", self.clock.target.directory, RUNTIME, paces=None)

    def _export_trimmed(self) -> None:
        """What the teacher is with the pieces that its task uses, where the file has to be smaller: it needs no training either."""
        shop = self.workshop
        if shop.guide == shop.teacher:
            return
        words = "all layers, the pieces that the task uses, no training"
        with self._or_left(TRIMMED, words):
            directory = shop.export(shop.guide, shop.out / TRIMMED / "model")
            paces = shop.paces(
                Target("candidate", directory, RUNTIME), shop.out / TRIMMED / "paces", baseline=self.clock.target
            )
            self.keep(TRIMMED, words, directory, RUNTIME, paces=paces)

    def _measure_shapes(self) -> None:
        """Times two shapes without training, a thin and a flat one, as a start for what is predicted."""
        layers = self.config.num_hidden_layers
        for shape in dict.fromkeys([Slimmed(layers, 0.3), Slimmed(max(1, layers // 3), 1.0)]):
            self.time.afford(0)
            folder = self.workshop.out / "shapes" / shape.name
            try:
                model = self.workshop.export(self.workshop.cut_to_be_timed(shape), folder / "model")
            except SETBACKS as error:  # a model that has not learned again may differ too much in int8
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

    def _end(self) -> None:
        """What leads learns the rest of its passes, if that still waits, and gets exits."""
        self._finish_what_waits()
        if self.budget.seeks_speed:
            leave_early(self, self.of_holding()[:2])

    def _take_up_the_rest(self) -> None:
        """What earlier searches left in this folder that this one had no time to come to: it costs nothing of it."""
        if not hasattr(self, "log"):
            self._open_log()
        taken_up = self.take_up(self.log.of_all)
        take_up_exits(self, [each for each in taken_up if self.holds(each.name)])

    def _descend(self) -> None:
        asked, whole = self._slowest_ms(), self.clock.ms
        # Exits may make a shape as fast as is asked that is not so by itself.
        useful = asked * (gain_on_teacher(self) if is_worth_it(self) else 1.0)
        descent = Descent(slowest=min(whole, asked / 0.6), fastest=_FASTEST * whole, useful=useful)
        taken_up, missed = self.take_up(self.log.of_others), misses(self)
        for measured in taken_up:
            if self.holds(measured.name) or measured in missed:
                descent.tell(self.clock.ms_of(measured.speedup), holds=self.holds(measured.name))
        take_up_exits(self, [each for each in taken_up if self.holds(each.name)])
        if descent.held is None:
            # The first, mild cut is of all layers, where width was never seen to lose more. Depths are compared after it.
            self.depths = self.depths[:1]
        self._go_down(descent)
        while (ms := self._learn_again(slowest_ms=useful)) is not None:
            descent.tell(ms, holds=True)
            for each in misses(self):
                descent.tell(self.clock.ms_of(each.speedup), holds=False)
            self._go_down(descent)

    def _go_down(self, descent: Descent) -> None:
        """Tries speed after speed until none is left that is worth it; what leads learns the rest of its passes then, if that waits."""
        while (ms := descent.next_ms) is not None and self._leaves_room_for_the_rest():
            name = self._try_speed(ms)
            holds = name is not None and self.holds(name)
            descent.tell(ms, holds=holds)
            if name is not None:
                leave_early(self, self.held(name))
        self._finish_what_waits()

    def _finish_what_waits(self) -> None:
        waiting = self.waiting_leader()
        if waiting is not None:
            self.finish(waiting)

    def _learn_again(self, *, slowest_ms: float) -> float | None:
        """Has what came nearest learn once more, while there is time for that and it gains; the milliseconds a text of the first that holds then, as
        they were aimed at. None where none does.

        Args:
            slowest_ms: milliseconds a text, beyond which a shape is of no use.
        """
        while (shape := next_to_learn_again(self, slowest_ms=slowest_ms)) is not None:
            score = next(each.score for each in self.tried if each.name == shape.name)
            has_time = self.time.left_s >= self.time.beginning_s() + self.time.finishing_s()
            if not has_time or self._is_hopeless(score, gain=max):
                return None
            again, ms = shape.again(), self.begun[shape.name].ms
            name = self._try_shapes([again], ms=ms)
            if name is not None and self.holds(name):
                leave_early(self, self.held(name))
                return ms
            if name is None or not gained(again, self):
                return None
        return None

    def _kept_s(self) -> float:
        """Seconds that are kept for the rest of a shape: of what leads, if that waits, else of the next, which may be measured before."""
        waits = self.waiting_leader() is not None
        exits_s = self.time.exits_s() if waits and is_worth_it(self) else 0.0
        return self.time.finishing_s() + exits_s + (self.time.measuring_s() if waits else 0.0)

    def _leaves_room_for_the_rest(self) -> bool:
        """Whether another shape may begin: what leads has to learn the rest too, if that waits."""
        return self.waiting_leader() is None or self.time.left_s >= self.time.beginning_s() + self._kept_s()

    def _try_what_is_asked(self) -> None:
        """The largest shapes that are predicted to be as fast and small as is asked, and smaller ones where they turn out not to be."""
        ms = self._slowest_ms()
        for _ in range(_RETRIES):
            name = self._try_speed(ms)
            made = [each for each in self.finished if each.name == name]
            if not made or affords(made[0], self.budget):
                return
            ms *= _AIMED * share_of_asked(made[0], self.budget)

    def _slowest_ms(self) -> float:
        """Milliseconds a text that a shape may be predicted to take, so that it is as fast and as small as is asked."""
        ms, fastest = self.clock.slowest_ms(self.budget), _FASTEST * self.clock.ms
        while self.budget.max_bytes is not None and ms > fastest and not self._shapes_of(ms, self.all_depths):
            ms *= _AIMED
        return ms

    def _try_speed(self, ms: float) -> str | None:
        """Compares shapes of several depths that are predicted to take `ms`, and finishes the best; its name, or None where there is none, or it
        could not be made."""
        shapes = self._shapes_of(ms, self.depths)
        if not shapes:  # fewer layers may be as fast where these are not
            self.depths = self.all_depths
            shapes = self._shapes_of(ms, self.depths)
        if not shapes:
            return None
        return self._try_shapes(shapes, ms=ms)

    def _try_shapes(self, shapes: list[Slimmed], *, ms: float) -> str | None:
        """Has shapes that are predicted to take `ms` learn for their first passes, as many as there is time for, and finishes the best."""
        self.time.afford(self.time.beginning_s())
        shapes = shapes[: self._most_begun()]
        self.workshop.ahead(self.workshop.begin, shapes)
        begun = [each for shape in shapes if (each := self.begin(shape, ms=ms)) is not None]
        if not begun:
            return None
        best = begun[0] if len(begun) == 1 else min(begun, key=self.divergence)
        self.depths = self.all_depths if len(self.depths) == 1 else around(best.shape.layers, self.all_depths)
        for each in begun:
            if each is not best and self.workshop.was_taught(each.shape.name):
                self.finish(each)  # by a run with less time, which did not compare it with as many
            elif each is not best:
                self.leave(each, why=f"{best.shape.in_words()} came nearer to the teacher as fast")
        name = self.hold_as_begun(best) if self.budget.seeks_speed else None
        if name is not None:
            return name
        if self.waiting_leader() is not None and self.time.left_s < 2 * self.time.finishing_s():
            self.leave(best, why="the time was kept for the rest of what leads")
        else:
            self._finish_or_leave(best, gain=max)
        return best.shape.name if best.shape.name in self.losses else None

    def _most_begun(self) -> int:
        """How many shapes may begin so that one of them can learn the rest in the time that is left; one may always."""
        first = self.time.beginning_s()
        return max(1, int((self.time.left_s - self._kept_s()) / first)) if first else sys.maxsize

    def _finish_or_leave(self, begun: Begun, *, gain: Callable[[list[float]], float]) -> None:
        """Has a shape learn the rest, unless it would lose too much even with what others gained by that.

        Args:
            gain: of what the others gained, as much is expected of it.
        """
        if self._is_hopeless(begun.score, gain=gain):
            self.leave(begun, why="it was not to be expected that it would hold")
        else:
            self.finish(begun)

    def _shapes_of(self, ms: float, depths: Sequence[int]) -> list[Slimmed]:
        """The widest shape of each depth that is predicted to take `ms`, and of as many shared layers; those whose file is small enough."""
        shapes = [
            self._sized(shape)
            for layers in depths
            if (shape := shape_of_time(layers, time=ms, predicted=self.clock.predicted_ms)) is not None
        ]
        shapes += self._shared(ms)
        return [shape for shape in shapes if self.has_room_for(shape)]

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
            begun = self.begin(shape, ms=ms)
            if begun is not None:
                self._finish_or_leave(begun, gain=median)
                leave_early(self, self.held(shape.name))
            idle = 0 if self._is_better_than(before) else idle + 1
        self.ended = f"{_IDLE} proposals in a row improved nothing" if idle == _IDLE else "nothing new was proposed"

    def _propose(self) -> TriedProposal:
        """What is to be tried of a new proposal; no shape where none of that depth takes so long, or where it was tried."""
        proposal = self.log.propose()
        ms = min(max(proposal.ms, self._fastest_of_use()), self._slowest_of_use())
        shape = shape_of_time(proposal.layers, time=ms, predicted=self.clock.predicted_ms)
        if shape is None or self._sized(shape).name in self.names():
            self.log.decline("no shape of this depth takes so long, or it was tried")
            return TriedProposal(None, ms)
        return TriedProposal(self._sized(shape), ms)

    def _slowest_of_use(self) -> float:
        """Milliseconds a text that would be faster than the fastest shape that holds, or what the budget asks where none does."""
        holding, asked = self.of_holding(), self._slowest_ms()
        return min(asked, _BELOW * self.clock.ms_of(holding[0].speedup)) if holding else asked

    def _fastest_of_use(self) -> float:
        """Milliseconds a text of the slowest finished shape that lost too much, of those that are faster than all that hold: what is faster
        still would lose more."""
        holding = self.of_holding()
        fastest_held = holding[0].speedup if holding else 0.0
        failed = [each.speedup for each in misses(self) if each.speedup > fastest_held]
        return self.clock.ms_of(min(failed)) if failed and self.budget.seeks_speed else 0.0

    def _is_better_than(self, before: float | None) -> bool:
        """Whether there is something better than there was, by more than a speed differs when it is measured again."""
        best = self.best()
        if best is None or before is None:
            return best != before
        return best > (FASTER * before if self.budget.seeks_speed else before)

    def _is_hopeless(self, score: float | None, *, gain: Callable[[list[float]], float]) -> bool:
        """Whether a shape would lose too much even with what others gained after their first passes."""
        if self.budget.max_drop is None or not self.gains:
            return False
        teacher = self.worth(score_of(self.teacher_scores, self.task.metrics[0]))
        return self.worth(score) + gain(self.gains) < teacher - self.budget.max_drop
