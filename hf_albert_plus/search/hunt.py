"""The search itself: what needs no training, then ever faster shapes, then exits on the best of them, then what the sampler proposes.

At every speed shapes of several depths learn for a quarter of their passes; the best of them learns on, the others stop there (successive
halving, Jamieson and Talwalkar 2016, with one rung).
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from hf_albert_plus.eval.measured_documents import Scores
from hf_albert_plus.eval.scoring import logits_scorer_for
from hf_albert_plus.eval.targets import Target

from ..config_files import load_config
from ..errors import AlbertPlusError
from ..records.progress import say
from .clock import Clock
from .descent import LEAST_DROP, Descent, around, depths, exit_drops
from .narrow_embeddings import embedding_that_fits
from .paces import Paces
from .pick import Judge, Loss, Measured, affords, answers_of, points_text, score_of
from .settings import Budget
from .shapes import Slimmed, can_share, shape_of_time
from .shapes import Work as EncoderWork
from .study_log import StudyLog, TriedProposal
from .tried import TEACHER, TRIMMED, Tried
from .workshop import RUNTIME, WITH_EXITS, Workshop

# A seventieth of the teacher's time is what embeddings and the graph's own steps leave.
_FASTEST = 1 / 70
# Of the differences between layers that share a block.
_RANK = 16
# Proposals in a row that improve nothing end a search.
_IDLE = 3
# Proposals in a row of what was tried or cannot be: there is nothing new.
_DECLINED = 25


class OutOfTime(Exception):
    """The next step would take longer than the search may."""


@dataclass
class Hunt:
    """One search.

    Attributes:
        teacher_scores: of the teacher in torch fp32.
        tried: every candidate, in the order in which it was tried.
        ended: why it did.
        is_stopped: by Ctrl-C.
    """

    workshop: Workshop
    budget: Budget
    time_budget_s: float
    teacher_scores: Scores
    tried: list[Tried] = field(default_factory=list)
    ended: str = ""
    is_stopped: bool = False

    def __post_init__(self) -> None:
        shop = self.workshop
        self.task = shop.task
        self.config = load_config(shop.whole, option="TEACHER")
        self.judge = Judge(shop.task, answers_of(self.teacher_scores, shop.task), seed=shop.settings.seed)
        self.gains: list[float] = []
        self.losses: dict[str, Loss] = {}
        self.depths = depths(self.config.num_hidden_layers)

    @property
    def finished(self) -> list[Measured]:
        return [each.measured for each in self.tried if each.measured is not None]

    def run(self) -> None:
        """Tries candidates until nothing is left that is worth it, the time is spent, or Ctrl-C is pressed."""
        try:
            with self.workshop.ctrl_c:
                self._try_all()
        except OutOfTime:
            self.ended = "the time was spent"
        except KeyboardInterrupt:
            self.ended, self.is_stopped = "it was stopped", True
        say(f"search ended: {self.ended}")

    def _try_all(self) -> None:
        self._export_teacher()
        self._export_trimmed()
        if self.workshop.settings.exits and self.config.num_hidden_layers > 1:
            self._with_exits(TEACHER, words="all layers", model=self.workshop.whole)
        self._measure_shapes()
        self._open_log()
        if self.budget.seeks_speed:
            self._descend()
        else:
            self._try_speed(self.clock.slowest_ms(self.budget))
        if self.workshop.settings.exits:
            self._leave_early()
        self._follow_proposals()

    def _export_teacher(self) -> None:
        """The teacher in int8: the candidate that needs no training, and the clock that all others are timed beside."""
        shop = self.workshop
        directory = shop.export(shop.teacher, shop.out / TEACHER / "model")
        target, torch = Target("clock", directory, RUNTIME), Target("torch", shop.teacher, "torch")
        own = shop.paces(target, shop.out / TEACHER / "paces", baseline=torch)
        self.clock = Clock(target, shop.settings.traffic, EncoderWork.of(self.config), own)
        self._keep(TEACHER, "all layers, no training", directory, RUNTIME, paces=None)

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
        self._keep(TRIMMED, words, directory, RUNTIME, paces=paces)

    def _measure_shapes(self) -> None:
        """Times two shapes without training, a thin and a flat one, as a start for what is predicted."""
        layers = self.config.num_hidden_layers
        for shape in dict.fromkeys([Slimmed(layers, 0.3), Slimmed(max(1, layers // 3), 1.0)]):
            self._afford(0)
            folder = self.workshop.out / "shapes" / shape.name
            started = self.workshop.start(shape)
            try:
                model = self.workshop.export(started, folder / "model")
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
        )

    def _descend(self) -> None:
        slowest = self.clock.ms
        # The first, mild cut is of all layers, where width was never seen to lose more. Depths are compared after it.
        self.depths = self.depths[:1]
        descent = Descent(slowest=min(slowest, self.clock.slowest_ms(self.budget) / 0.6), fastest=_FASTEST * slowest)
        while (ms := descent.next_ms) is not None:
            name = self._try_speed(ms)
            if name is None:
                descent.tell(ms, holds=False)
                continue
            descent.tell(ms, holds=self._holds(name))

    def _holds(self, name: str) -> bool:
        at_most = self.losses[name].at_most
        return at_most is not None and self.budget.max_drop is not None and at_most <= self.budget.max_drop

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
        self._afford(self._learning_s(0.25))
        self.workshop.ahead(self.workshop.begin, shapes)
        begun = {shape: self._begin(shape, ms=ms) for shape in shapes}
        best = shapes[0] if len(shapes) == 1 else min(shapes, key=self._divergence)
        known = depths(self.config.num_hidden_layers)
        self.depths = known if len(self.depths) == 1 else around(best.layers, known)
        for shape, worth in begun.items():
            if shape != best:
                self._stop(shape, worth, why=f"{best.in_words()} came nearer to the teacher as fast")
        self._finish(best, begun[best])
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
        holding = [each for each in self.finished if each.name in taught and self._holds(each.name)]
        bases = [each for each in holding if shape.can_be_cut_from(taught[each.name][0])]
        fastest = max(bases, key=lambda each: each.speedup, default=None)
        return shape if fastest is None else replace(shape, base=fastest.name)

    def _begin(self, shape: Slimmed, *, ms: float) -> float:
        """What a shape is worth after its first passes: its score, its sign turned where less is better."""
        self._afford(self._learning_s(0.25))
        self.log.begin(shape, ms=ms)
        begun = self.workshop.begin(shape)
        scores = self.workshop.score(Target("begun", begun, "torch"), self.workshop.out / shape.name / "begun-scores")
        worth = self._worth(score_of(scores, self.task.metrics[0]))
        say(f"  {shape.in_words()}: {self._said(worth)} after a quarter of its passes")
        return worth

    def _divergence(self, shape: Slimmed) -> float:
        """How far a shape is from the teacher after its first passes."""
        folder = self.workshop.out / shape.name
        divergence = self.workshop.divergence(folder / "begun", folder / "begun-divergence")
        say(f"  {shape.in_words()}: {divergence:.4g} away from the teacher's answers")
        return divergence

    def _stop(self, shape: Slimmed, worth: float, *, why: str) -> None:
        score = self._worth(worth)
        self.log.stop(shape, score=score, why=why)
        if shape.name not in {each.name for each in self.tried}:
            self.tried.append(Tried(shape.name, shape.in_words(), score, why=why))

    def _finish(self, shape: Slimmed, begun: float) -> None:
        if shape.name in {each.name for each in self.tried if each.measured is not None}:
            return
        self._afford(self._learning_s(0.75))
        taught = self.workshop.finish(shape)
        folder = self.workshop.out / shape.name
        model = self.workshop.export(taught, folder / "model")
        paces = self.workshop.paces(Target("candidate", model, RUNTIME), folder / "paces", baseline=self.clock.target)
        if shape.rank is None:  # others' thin products are no work of the kinds that times are predicted from
            self.clock.learn(shape, paces)
        tried = self._keep(shape.name, shape.in_words(), model, RUNTIME, paces=paces)
        self.gains.append(self._worth(tried.score) - begun)
        assert tried.measured is not None
        lost = self.losses[tried.name].points
        self.log.finish(shape, score=tried.score, speedup=tried.measured.speedup, lost=lost)

    def _keep(
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
        bound = "" if lost.at_most is None else f", with 90 % confidence at most {points_text(lost.at_most)}"
        say(
            f"  {words}: {tried.score:.1f}, {points_text(lost.points)} lost{bound}; {speedup:.1f}x, {measured.file_bytes / 1e6:.1f} MB"
        )
        return tried

    def _leave_early(self) -> None:
        """Exits on the fastest shape that holds, and on the next slower one; without a limit to what is lost, on the best."""
        holding = [each for each in self.finished if each.name in self.workshop.taught]
        if self.budget.seeks_speed:
            holding = [each for each in holding if self._holds(each.name)]
        for measured in sorted(holding, key=lambda each: -each.speedup)[:2]:
            shape, taught = self.workshop.taught[measured.name]
            if shape.layers > 1:
                self._with_exits(shape.name, words=shape.in_words(), model=taught)

    def _with_exits(self, name: str, *, words: str, model: Path) -> None:
        """What a candidate is with exits, at thresholds that lose nothing worth a word, half of what may be lost, and all of it, as long as it
        holds."""
        self._afford(self._learning_s(0.5))
        folder = self.workshop.out / name
        try:
            exits = self.workshop.learn_exits(model, folder / "exits")
        except AlbertPlusError as error:
            say(f"  {words}, with exits: {error}")
            return
        for max_drop in exit_drops(self.budget.max_drop):
            ending = "" if max_drop == LEAST_DROP else f"-{max_drop:g}"
            kept = self._leave(exits, ending=ending, name=name, words=words, max_drop=max_drop, model=model)
            if kept is None or not self._holds(kept.name):
                return

    def _leave(self, exits: Path, *, ending: str, name: str, words: str, max_drop: float, model: Path) -> Tried | None:
        """A candidate by one threshold; None where it cannot be exported, as no exit is ever taken."""
        self._afford(0)
        shop, folder, scorer = self.workshop, exits.parent, logits_scorer_for(self.task, model)
        try:
            calibrated = shop.calibrate(exits, folder / f"calibrated{ending}", max_drop=max_drop, scorer=scorer)
            exported = shop.export(calibrated, folder / f"leaves-early{ending}", to=WITH_EXITS)
        except AlbertPlusError as error:
            say(f"  {words}, with exits: {error}")
            return None
        target = Target("candidate", exported, WITH_EXITS)
        paces = shop.paces(target, folder / f"exit-paces{ending}", baseline=self.clock.target)
        words = f"{words}, leaves early" + (f" for {max_drop:g}" if ending else "")
        return self._keep(f"{name}-exits{ending}", words, exported, WITH_EXITS, paces=paces)

    def _follow_proposals(self) -> None:
        """Shapes that Optuna's sampler proposes, until some in a row improve nothing; those of earlier runs first. What is slower than the best
        that holds, or than what is asked, is not tried."""
        idle = declined = 0
        taught = self.workshop.taught
        # By another budget what a proposal was cut from may not have been made.
        earlier = (each for each in self.log.earlier if each.shape is None or each.shape.base in (None, *taught))
        while idle < _IDLE and declined < _DECLINED:
            before = self._best()
            proposal = next(earlier, None) or self._propose()
            shape, ms = proposal.shape, proposal.ms
            if shape is None:
                declined += 1
                continue
            declined = 0
            worth = self._begin(shape, ms=ms)
            if self._is_hopeless(worth):
                self._stop(shape, worth, why="it was not to be expected that it would hold")
            else:
                self._finish(shape, worth)
            idle = 0 if self._best() != before else idle + 1
        self.ended = f"{_IDLE} proposals in a row improved nothing" if idle == _IDLE else "nothing new was proposed"

    def _propose(self) -> TriedProposal:
        """What is to be tried of a new proposal; no shape where none of that depth takes so long, or where it was tried."""
        proposal = self.log.propose()
        ms = min(proposal.ms, self._slowest_of_use())
        shape = shape_of_time(proposal.layers, time=ms, predicted=self.clock.predicted_ms)
        if shape is None or self._sized(shape).name in {each.name for each in self.tried}:
            self.log.decline("no shape of this depth takes so long, or it was tried")
            return TriedProposal(None, ms)
        return TriedProposal(self._sized(shape), ms)

    def _slowest_of_use(self) -> float:
        """Milliseconds a text of the fastest that holds, or what the budget asks where nothing does."""
        best = self._best()
        if best is None or not self.budget.seeks_speed:
            return self.clock.slowest_ms(self.budget)
        return min(self.clock.slowest_ms(self.budget), self.clock.ms_of(best))

    def _is_hopeless(self, begun: float) -> bool:
        """Whether a shape would lose too much even with what others gained after their first passes."""
        if self.budget.max_drop is None or not self.gains:
            return False
        teacher = self._worth(score_of(self.teacher_scores, self.task.metrics[0]))
        return begun + median(self.gains) < teacher - self.budget.max_drop

    def _best(self) -> float | None:
        """The speedup of the fastest that holds; where speed is given and not sought, the least that is lost."""
        if self.budget.seeks_speed:
            return max((each.speedup for each in self.finished if self._holds(each.name)), default=None)
        return max(
            (-self.losses[each.name].points for each in self.finished if affords(each, self.budget)), default=None
        )

    def _afford(self, seconds: float) -> None:
        """Ends the search where a step would take longer than what is left."""
        if self.workshop.spent_s + seconds > self.time_budget_s:
            raise OutOfTime

    def _learning_s(self, share: float) -> float:
        """What a share of a candidate's passes has taken so far, in the mean."""
        taken = [record for record in self.workshop.records if record.stage == "distill"]
        passes = sum(float(record.settings.get("epochs", 0)) for record in taken)
        return 0.0 if not passes else share * self.workshop.epochs * sum(record.seconds for record in taken) / passes

    def _worth(self, score: float) -> float:
        return -score if self.task.is_scored_by_error else score

    def _said(self, worth: float) -> str:
        return f"{self._worth(worth):.1f}"
