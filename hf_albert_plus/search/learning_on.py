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
from .learning import Begun, Learning
from .learning_again import FASTER
from .leaving_early import gain_on_teacher, is_worth_it, leave_early, leave_early_again
from .pick import Measured, affords
from .shapes import Slimmed
from .tried import has_learned_on, name_as_longer, shape_before
from .workshop import FIRST_SHARE

_FILE = "learned-on.json"
# Of the time of a search, what is kept, where the task takes at least so many times the passes of a candidate.
_SHARE, _WORTH_KEEPING = 1 / 3, 1.5
# Of the passes of a candidate, the fewest that are worth it.
_FEWEST = 0.5
# Of the time that is left, what learns: a pass takes a little longer at times than it did.
_LEARNS = 0.95


def kept_for_learning_on_s(learning: Learning) -> float:
    """Seconds of a search that are kept for a shape that learns on: none where no shape may, until then."""
    return _SHARE * learning.time_budget_s if _is_cut_short(learning) and _that_may(learning) else 0.0


def _is_cut_short(learning: Learning) -> bool:
    """Whether speed is sought by candidates that learn less than the task takes."""
    passes = learning.workshop.passes
    return learning.budget.seeks_speed and passes.whole >= _WORTH_KEEPING * passes.count


@dataclass(frozen=True)
class Unripe:
    """A shape that may learn on.

    Attributes:
        source: the directory of what it last learned.
        ms: that a text takes in it, or is predicted to take.
        at_most: points that it loses so far, with confidence.
        learned: passes so far.
    """

    shape: Slimmed
    source: Path
    ms: float
    at_most: float
    learned: float

    def expected(self, more: float, *, gain: float) -> float:
        """The points that it is expected to lose at most after some passes more.

        Args:
            gain: points that shapes win back when they have learned four times as long.
        """
        return self.at_most - gain * math.log1p(more / self.learned) / math.log(1 / FIRST_SHARE)


def learn_on(learning: Learning) -> None:
    """Has the fastest shape that is expected to hold learn on, or what comes nearest to that; then others, while there is time."""
    _take_up(learning)
    while _is_cut_short(learning) and (found := next_to_learn_on(learning)) is not None:
        unripe, more = found
        name = name_as_longer(unripe.shape.name, passes=more, after=unripe.learned)
        say(f"{unripe.shape.in_words()}: {more:g} passes more, in the time that was kept for one that learns on")
        _keep(name, unripe, more, learning)
        # What is known of it before it is made costs its time.
        learning.first_seen(name)
        learning.learn_on(unripe.shape, source=unripe.source, name=name, passes=more)
        leave_early(learning, learning.held(name))


def next_to_learn_on(learning: Learning) -> tuple[Unripe, float] | None:
    """The fastest shape that is expected to hold after as many passes more as there is time for, and these passes; else the one that is expected to lose
    least. None where no shape would be faster than all that holds, or there is no time."""
    fewest = _FEWEST * learning.workshop.passes.count
    wanted = [(each, more) for each in _unripe(learning) if (more := _more(each, learning)) >= fewest]
    gains = [gain for gain in learning.gains if math.isfinite(gain)]
    gain = max(0.0, mean(gains)) if gains else 0.0

    def expected(pair: tuple[Unripe, float]) -> float:
        return pair[0].expected(pair[1], gain=gain)

    most = learning.budget.max_drop or 0.0
    holding = [pair for pair in wanted if expected(pair) <= most]
    if holding:
        return min(holding, key=lambda pair: pair[0].ms)
    return min(wanted, key=expected, default=None)


def _that_may(learning: Learning) -> list[tuple[Begun, Measured | None, float]]:
    """The shapes that do not hold, would be faster than all that does, with exits where these are worth it, and have not learned on: each as it began, as
    it was measured after all that it was given, if it was, and the milliseconds of a text. It is asked for whenever the time that is left is, so nothing is judged."""
    if not learning.begun:
        return []
    faster = gain_on_teacher(learning) if is_worth_it(learning) else 1.0
    asked_ms, best = faster * learning.clock.slowest_ms(learning.budget), learning.best()
    best_ms = math.inf if best is None else faster * learning.clock.ms_of(FASTER * best)
    held = [learning.workshop.taught[each.name][0] for each in learning.of_holding()]
    finished = {each.name: each for each in learning.shapes()}
    # What learned on, and what could not be made or exported.
    done = {shape_before(name) for name in learning.names() if has_learned_on(name)}
    done |= {each.name for each in learning.tried if each.measured is None and each.score is None}
    found = []
    for name, begun in learning.begun.items():
        shape, measured = begun.shape, finished.get(name)
        ms = begun.ms if measured is None else learning.clock.ms_of(measured.speedup)
        is_as_asked = ms <= asked_ms or (measured is not None and affords(measured, learning.budget))
        if not is_as_asked or ms > best_ms or name in done or not learning.has_room_for(shape):
            continue
        if not any(shape.is_as(one) for one in held):
            found.append((begun, measured, ms))
    return found


def _unripe(learning: Learning) -> list[Unripe]:
    """The same, with what they lose so far."""
    return [_unripe_of(*each, learning=learning) for each in _that_may(learning)]


def _unripe_of(begun: Begun, measured: Measured | None, ms: float, *, learning: Learning) -> Unripe:
    """A shape as it is: after its first passes, or after all that it was given."""
    shop, shape = learning.workshop, begun.shape
    rounds = shape.rounds if measured is not None else shape.rounds - 1 + FIRST_SHARE
    lost = learning.judge.loss(begun.answers) if measured is None else learning.losses[shape.name]
    return Unripe(
        shape,
        shop.begun(shape.name) if measured is None else shop.taught[shape.name][1],
        ms,
        lost.bound,
        learned=rounds * shop.passes.count,
    )


def _more(unripe: Unripe, learning: Learning) -> float:
    """The passes that have room in the time that is left, at most those of the task. Exits, a threshold, and what measures it come after them."""
    time = learning.time
    exits_s = time.exits_s() + time.calibrating_s() + time.measuring_s() if is_worth_it(learning) else 0.0
    seconds = max(0.0, _LEARNS * (time.left_s - time.measuring_s() - exits_s))
    return float(f"{min(learning.workshop.passes.whole, seconds / time.pass_s(unripe.source)):.3g}")


def _take_up(learning: Learning) -> None:
    """What learned on in whichever run, and is whole, with the exits that it was given."""
    shop = learning.workshop
    for name, known in _kept(learning).items():
        shape = Slimmed(**known["shape"])
        if shop.was_taught(name) and name not in learning.names() and learning.has_room_for(shape):
            seen = learning.first_seen(name)
            with learning.without_cost(before=seen.at):
                learning.learn_on(shape, source=shop.out / known["source"], name=name, passes=known["passes"])
            if shop.has_exits(name):
                for each in learning.held(name):
                    leave_early_again(learning, each, before=seen.at)


def _keep(name: str, unripe: Unripe, more: float, learning: Learning) -> None:
    source = unripe.source.relative_to(learning.workshop.out).as_posix()
    known = {"shape": asdict(unripe.shape), "source": source, "passes": more}
    write_json(learning.workshop.out / _FILE, {**_kept(learning), name: known})


def _kept(learning: Learning) -> dict[str, dict[str, Any]]:
    return read_kept(learning.workshop.out / _FILE, what="what learned on", shape=dict[str, dict[str, Any]])
