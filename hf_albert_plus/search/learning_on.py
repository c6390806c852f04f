"""The shape that learns on at the end of a search whose candidates learned fewer passes than the task takes.

Many shapes that learn little tell which of them are worth more. For the one that is, a part of the time is kept: it goes on from what it has learned,
for as many passes as have room in it.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from ..records.files import read_kept, write_json
from ..records.progress import say
from .learning import Learning
from .learning_again import FASTER
from .leaving_early import gain_on_teacher, is_worth_it, leave_early
from .shapes import Slimmed
from .taken_up import first_seen
from .workshop import FIRST_SHARE

_FILE = "learned-on.json"
# Of the time of a search, what is kept, where the task takes at least so many times the passes of a candidate.
_SHARE, _WORTH_KEEPING = 1 / 3, 1.5
# Of the passes of a candidate, the fewest that are worth it.
_FEWEST = 0.5
# Of the time that is left, what learns: a pass takes a little longer at times than it did.
_LEARNS = 0.95


def kept_for_learning_on_s(learning: Learning) -> float:
    """Seconds of a search that are kept for a shape that learns on: none where candidates learn as much as the task takes, or speed is not sought."""
    passes = learning.workshop.passes
    is_cut_short = passes.whole >= _WORTH_KEEPING * passes.count
    return _SHARE * learning.time_budget_s if learning.budget.seeks_speed and is_cut_short else 0.0


@dataclass(frozen=True)
class Unripe:
    """A shape that may learn on.

    Attributes:
        source: the directory of what it last learned.
        ms: that a text takes in it, or is predicted to take.
        at_most: points that it loses so far, with confidence.
        learned: passes so far.
        more: those that have room in the time that is left.
    """

    shape: Slimmed
    source: Path
    ms: float
    at_most: float
    learned: float
    more: float

    @property
    def name(self) -> str:
        """Of the candidate that it becomes."""
        return f"{self.shape.name}-longer{self.more:g}"

    def expected(self, *, gain: float) -> float:
        """The points that it is expected to lose at most after that.

        Args:
            gain: points that shapes win back when they have learned four times as long.
        """
        return self.at_most - gain * math.log1p(self.more / self.learned) / math.log(1 / FIRST_SHARE)


def learn_on(learning: Learning) -> None:
    """Has the fastest shape that is expected to hold learn on, or what comes nearest to that; then others, while there is time."""
    if not kept_for_learning_on_s(learning):
        return
    _take_up(learning)
    while (unripe := next_to_learn_on(learning)) is not None:
        say(f"{unripe.shape.in_words()}: {unripe.more:g} passes more, in the time that was kept for one that learns on")
        _keep(unripe, learning)
        # What is known of it before it is made costs its time.
        first_seen(unripe.name, learning.workshop, asked=learning.log.asked)
        learning.learn_on(unripe.shape, source=unripe.source, name=unripe.name, passes=unripe.more)
        leave_early(learning, [each for each in learning.of_holding() if each.name == unripe.name])


def next_to_learn_on(learning: Learning) -> Unripe | None:
    """The fastest shape that is expected to hold after as many passes more as there is time for, else the one that is expected to lose least; None
    where no shape is faster than all that holds, or there is no time."""
    wanted = [each for each in _unripe(learning) if each.more >= _FEWEST * learning.workshop.passes.count]
    gains = [gain for gain in learning.gains if math.isfinite(gain)]
    gain = max(0.0, mean(gains)) if gains else 0.0
    expected = {each.name: each.expected(gain=gain) for each in wanted}
    most = learning.budget.max_drop or 0.0
    holding = [each for each in wanted if expected[each.name] <= most]
    if holding:
        return min(holding, key=lambda each: each.ms)
    return min(wanted, key=lambda each: expected[each.name], default=None)


def _unripe(learning: Learning) -> list[Unripe]:
    """The shapes that do not hold, would be faster than all that does, with exits where these are worth it, and have not learned on."""
    slowest_ms = learning.clock.slowest_ms(learning.budget)
    if (best := learning.best()) is not None:
        slowest_ms = min(slowest_ms, learning.clock.ms_of(FASTER * best))
    if is_worth_it(learning):
        slowest_ms *= gain_on_teacher(learning)
    count, taught = learning.workshop.passes.count, learning.workshop.taught
    known = {
        name: _unripe_of(
            begun.shape,
            learning,
            ms=begun.ms,
            answers=begun.answers,
            learned=count * (begun.shape.rounds - 1 + FIRST_SHARE),
        )
        for name, begun in learning.begun.items()
    }
    for each in learning.shapes():
        if each.name in known:
            shape, ms = taught[each.name][0], learning.clock.ms_of(each.speedup)
            known[each.name] = _unripe_of(shape, learning, ms=ms, answers=each.answers, learned=count * shape.rounds)
    held = [taught[each.name][0] for each in learning.of_holding()]
    have_learned_on = {name.rpartition("-longer")[0] for name in learning.names()}
    return [
        each
        for each in known.values()
        if each.ms <= slowest_ms
        and each.shape.name not in have_learned_on
        and learning.has_room_for(each.shape)
        and not any(each.shape.is_as(shape) for shape in held)
    ]


def _unripe_of(shape: Slimmed, learning: Learning, *, ms: float, answers: Any, learned: float) -> Unripe:
    source = learning.workshop.last_learned(shape.name)
    at_most = learning.judge.loss(answers).at_most
    # Exits, a threshold, and what measures it come after that.
    exits_s = (
        learning.time.exits_s() + learning.time.calibrating_s() + learning.time.measuring_s()
        if is_worth_it(learning)
        else 0.0
    )
    seconds = _LEARNS * (learning.time.left_s - learning.time.measuring_s() - exits_s)
    more = min(learning.workshop.passes.whole, max(0.0, seconds) / learning.time.pass_s(source))
    return Unripe(shape, source, ms, math.inf if at_most is None else at_most, learned, float(f"{more:.3g}"))


def _take_up(learning: Learning) -> None:
    """What learned on in whichever run, and is whole."""
    shop = learning.workshop
    for name, known in _kept(learning).items():
        shape = Slimmed(**known["shape"])
        if shop.was_taught(name) and name not in learning.names() and learning.has_room_for(shape):
            seen = first_seen(name, shop, asked=learning.log.asked)
            with learning.without_cost(before=seen.at):
                learning.learn_on(shape, source=shop.out / known["source"], name=name, passes=known["passes"])


def _keep(unripe: Unripe, learning: Learning) -> None:
    known, out = _kept(learning), learning.workshop.out
    source = unripe.source.relative_to(out).as_posix()
    write_json(
        out / _FILE, {**known, unripe.name: {"shape": asdict(unripe.shape), "source": source, "passes": unripe.more}}
    )


def _kept(learning: Learning) -> dict[str, dict[str, Any]]:
    return read_kept(learning.workshop.out / _FILE, what="what learned on", shape=dict[str, dict[str, Any]])
