"""The trials of a search in Optuna's storage: its dashboard opens them, and its sampler proposes shapes where the plan of the search ends."""

from collections.abc import Callable
from dataclasses import dataclass
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


class StudyLog:
    """The study of one search: score and speedup, both the higher the better.

    Args:
        folder: where the storage lies.
        layers: of the teacher.
        slowest, fastest: milliseconds a text that are proposed between.
    """

    def __init__(self, folder: Path, *, layers: int, slowest: float, fastest: float, seed: int):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.optuna, self.layers, self.slowest, self.fastest = optuna, layers, slowest, fastest
        self.study = optuna.create_study(
            study_name=_NAME,
            storage=f"sqlite:///{folder.resolve() / _FILE}",
            directions=["maximize", "maximize"],
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=4),
            load_if_exists=True,
        )
        self.open: dict[str, Any] = {}
        self.proposed: Any = None
        for trial in self.study.get_trials(deepcopy=False):
            if not trial.state.is_finished():  # of a search that was killed
                self.study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        self.known = {
            trial.user_attrs["name"]: trial.number
            for trial in self.study.get_trials(deepcopy=False)
            if "name" in trial.user_attrs and trial.state != optuna.trial.TrialState.FAIL
        }

    def propose(self) -> Proposal:
        """A depth and a time by TPE (Bergstra et al. 2011) of what was tried; the next shape that begins is its trial."""
        self.proposed = self.study.ask()
        return self._suggest(self.proposed)

    def decline(self, why: str) -> None:
        """The proposal is not tried."""
        self.proposed.set_user_attr("why", why)
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
        trial.set_user_attr("name", shape.name)
        trial.set_user_attr("shape", shape.in_words())
        self.open[shape.name] = trial

    def stop(self, shape: Slimmed, *, score: float, why: str) -> None:
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
