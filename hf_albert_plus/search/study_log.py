"""The trials of a search in Optuna's storage: its dashboard opens them, and its sampler proposes shapes where the plan of the search ends."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .shapes import Slimmed

_FILE = "optuna.db"
_NAME = "albert-plus compress"


@dataclass(frozen=True)
class Proposal:
    """What the sampler proposes: a depth, and milliseconds a text."""

    layers: int
    ms: float


@dataclass(frozen=True)
class TriedProposal:
    """What is tried of a proposal.

    Attributes:
        shape: None where there is none that is new.
        ms: that it was predicted to take.
    """

    shape: Slimmed | None
    ms: float


class StudyLog:
    """The study of one search: score and speedup, both the higher the better.

    Args:
        folder: where the storage lies.
        layers: of the teacher.
        slowest, fastest: milliseconds a text that are proposed between.
        asked: the budget, in words.

    Attributes:
        earlier: what was proposed before, for this budget.
        of_all, of_others: shapes that earlier searches tried, and those of them that were for other budgets, in their order.
        left: the names of those that were not gone on with, as far as these knew; one that went on with more time may have.
    """

    def __init__(self, folder: Path, *, layers: int, slowest: float, fastest: float, seed: int, asked: str):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.optuna, self.layers, self.slowest, self.fastest, self.asked = optuna, layers, slowest, fastest, asked
        self.study = optuna.create_study(
            study_name=_NAME,
            storage=f"sqlite:///{folder.resolve() / _FILE}",
            directions=["maximize", "maximize"],
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=4),
            load_if_exists=True,
        )
        self.open: dict[str, Any] = {}
        self.proposed: Any = None
        self.earlier: list[TriedProposal] = []
        self.of_others: list[Slimmed] = []
        self.of_all: list[Slimmed] = []
        self.left: set[str] = set()
        self._fail_waiting()
        for trial in self.study.get_trials(deepcopy=False):
            self._take_up(trial)
        self.known = {
            trial.user_attrs["name"]: trial.number
            for trial in self.study.get_trials(deepcopy=False)
            if "name" in trial.user_attrs and trial.state.is_finished() and trial.state != optuna.trial.TrialState.FAIL
        }

    def _fail_waiting(self) -> None:
        """A search that was killed between putting a shape in the queue and taking it out left it there: the plan begins it again."""
        states = self.optuna.trial.TrialState
        for _ in self.study.get_trials(deepcopy=False, states=(states.WAITING,)):
            self.study.tell(self.study.ask().number, state=states.FAIL)

    def _take_up(self, trial: Any) -> None:
        """Notes what was proposed before, and goes on with a proposal in whose midst a search was killed. What else was in its midst is of the
        search's own plan, which begins it again."""
        said = trial.user_attrs
        states = self.optuna.trial.TrialState
        is_mine = said.get("asked", self.asked) == self.asked
        is_proposal = is_mine and ("proposed" in said or ("why" in said and "name" not in said))
        if not trial.state.is_finished() and not is_proposal:
            self.study.tell(trial.number, state=states.FAIL)
        if trial.state in (states.COMPLETE, states.PRUNED) and "slimmed" in said:
            self.of_all.append(Slimmed(**said["slimmed"]))
            if not is_mine:
                self.of_others.append(self.of_all[-1])
            if trial.state == states.PRUNED:
                self.left.add(said["name"])
        if is_proposal:
            shape = Slimmed(**said["proposed"]) if "proposed" in said else None
            self.earlier.append(TriedProposal(shape, trial.params["ms"]))
            if shape is not None and not trial.state.is_finished():
                self.open[shape.name] = self.optuna.trial.Trial(self.study, trial._trial_id)

    def propose(self) -> Proposal:
        """A depth and a time by TPE (Bergstra et al. 2011) of what was tried; the next shape that begins is its trial."""
        self.proposed = self.study.ask()
        return self._suggest(self.proposed)

    def decline(self, why: str) -> None:
        """The proposal is not tried."""
        self.proposed.set_user_attr("why", why)
        self.proposed.set_user_attr("asked", self.asked)
        self._prune(self.proposed)
        self.proposed = None

    def begin(self, shape: Slimmed, *, ms: float) -> None:
        """A shape that is tried at a predicted time; one that was tried before keeps its trial."""
        if shape.name in self.known or shape.name in self.open:
            return
        trial, self.proposed = self.proposed, None
        if trial is None:
            self.study.enqueue_trial({"layers": shape.layers, "ms": min(max(ms, self.fastest), self.slowest)})
            trial = self.study.ask()
            self._suggest(trial)
        else:
            trial.set_user_attr("proposed", asdict(shape))
        trial.set_user_attr("name", shape.name)
        trial.set_user_attr("shape", shape.in_words())
        trial.set_user_attr("slimmed", asdict(shape))
        trial.set_user_attr("asked", self.asked)
        self.open[shape.name] = trial

    def stop(self, shape: Slimmed, *, score: float | None, why: str) -> None:
        """A shape that is not gone on with."""
        self._end(shape, self._prune, score_of_begun=score, why=why)

    def _prune(self, trial: Any) -> None:
        self.study.tell(trial.number, state=self.optuna.trial.TrialState.PRUNED)

    def finish(self, shape: Slimmed, *, score: float, speedup: float, lost: float | None) -> None:
        self._end(shape, lambda trial: self.study.tell(trial.number, [score, speedup]), lost=lost)

    def _end(self, shape: Slimmed, tell: Callable[[Any], object], **facts: Any) -> None:
        trial = self.open.pop(shape.name, None)
        if trial is None:
            return
        for name, value in facts.items():
            trial.set_user_attr(name, value)
        tell(trial)
        self.known[shape.name] = trial.number

    def _suggest(self, trial: Any) -> Proposal:
        return Proposal(
            layers=trial.suggest_int("layers", 1, self.layers),
            ms=trial.suggest_float("ms", self.fastest, self.slowest, log=True),
        )
