"""How long candidates learn: as many passes as the task takes, or as many as leave time for several candidates."""

from dataclasses import dataclass
from pathlib import Path

from ..records.files import read_json, write_json
from ..records.progress import say

_FILE = "passes.json"
# Of the time of a search, what the passes of one candidate may take; and where that is too little to learn from, at most.
_SHARE, _MOST = 1 / 6, 1 / 2
# Fewer rows than these are too little to learn from.
_FEWEST_ROWS = 8000
# A pass over a row takes as long as the teacher takes for so many answers: one of its own, and a candidate of half its size forward and backward.
_ANSWERS = 3.0
# A search that goes on with more time than it began with is told of passes that could be so many times as many.
_WORTH_SAYING = 1.5


@dataclass(frozen=True)
class Passes:
    """What a candidate learns.

    Attributes:
        count: passes over what candidates learn from.
        whole: those that the task takes.
        seconds: that one takes, before any was made.
    """

    count: float
    whole: float
    seconds: float = 0.0


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
    path = home / _FILE
    if not path.exists():
        write_json(path, {"passes": fitted})
    kept: float = read_json(path, what="the passes of a search", shape=dict[str, float])["passes"]
    count = min(passes, kept)
    if count < passes:
        said = f"candidates learn {count:g} of the {passes:g} passes that the task takes, so that several have room in the time"
        more = f"; in another --out they would learn {fitted:g}" if fitted > _WORTH_SAYING * count else ""
        say(said + more)
    return Passes(count, passes, seconds)
