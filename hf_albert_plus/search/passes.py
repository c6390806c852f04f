"""How long candidates and their exits learn: as many passes as the task takes, or as many as leave time for several candidates."""

from dataclasses import dataclass, replace
from pathlib import Path

from ..records.files import read_kept, write_json
from ..records.progress import say

_FILE = "passes.json"
# Of the time of a search, what the passes of one candidate may take; and where that is too little to learn from, at most.
_SHARE, _MOST = 1 / 6, 1 / 2
# Fewer rows than these are too little to learn from.
_FEWEST_ROWS = 8000
# A pass over a row takes as long as the teacher takes for so many answers: one of its own, and a candidate of half its size forward and backward.
_ANSWERS = 3.0
# Exits learn in a pass or two, and of so many examples, each of which takes an answer; on one candidate they take so much of the time at most.
_EXITS_EPOCHS, _EXITS_EXAMPLES, _EXITS_SHARE = 2.0, 40_000, 1 / 8
# A search that goes on with more time than it began with is told of passes that could be so many times as many.
_WORTH_SAYING = 1.5


@dataclass(frozen=True)
class Passes:
    """What a candidate learns.

    Attributes:
        count: passes over what candidates learn from.
        whole: those that the task takes.
        seconds: that one takes, before any was made.
        exits: passes of exits on a candidate, over the task's rows.
        exits_s: that all of these take, before any were made.
    """

    count: float
    whole: float
    seconds: float = 0.0
    exits: float = _EXITS_EPOCHS
    exits_s: float = 0.0


def seconds_of_a_pass(*, rows: int, answer_ms: float) -> float:
    """What a pass is expected to take.

    Args:
        rows: that it goes over.
        answer_ms: of the teacher in torch, for a text.
    """
    return rows * answer_ms * _ANSWERS / 1e3


def fit_passes(passes: float, *, rows: int, answer_ms: float, budget_s: float, home: Path) -> Passes:
    """The passes that the task takes, or fewer where a candidate's would take too much of the time, though not too few. A search that goes on has those that it
    began with, so that candidates stay comparable.

    Args:
        passes: that the task takes.
        rows, answer_ms: as of `seconds_of_a_pass`.
        budget_s: of the whole search.
        home: where what a search began with is kept.
    """
    seconds = seconds_of_a_pass(rows=rows, answer_ms=answer_ms)
    room_s = max(_SHARE * budget_s, min(_MOST * budget_s, seconds * _FEWEST_ROWS / rows))
    fitted = min(passes, float(f"{room_s / seconds:.2g}"))
    count = min(passes, _kept(fitted, name="passes", home=home))
    if count < passes:
        said = f"candidates learn {count:g} of the {passes:g} passes that the task takes, so that several have room in the time"
        more = f"; in another --out they would learn {fitted:g}" if fitted > _WORTH_SAYING * count else ""
        say(said + more)
    return Passes(count, passes, seconds)


def with_exits(passes: Passes, *, epochs: float, rows: int, answer_ms: float, budget_s: float, home: Path) -> Passes:
    """The same with the passes of exits: as many as they take, or fewer where those on one candidate would take too much of the time.

    Args:
        epochs: passes that the task takes.
        rows: of the task, which are learned from.
    """
    seconds = rows * answer_ms / 1e3
    wanted = min(_EXITS_EPOCHS, epochs, _EXITS_EXAMPLES / rows, _EXITS_SHARE * budget_s / seconds)
    kept = _kept(float(f"{wanted:.3g}"), name="exits", home=home)
    return replace(passes, exits=kept, exits_s=kept * seconds)


def _kept(fitted: float, *, name: str, home: Path) -> float:
    """What a search began with, which is what was fitted to its time then."""
    path = home / _FILE
    known = read_kept(path, what="the passes of a search", shape=dict[str, float])
    if name not in known:
        known[name] = fitted
        write_json(path, known)
    return known[name]
