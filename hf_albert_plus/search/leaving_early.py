"""Candidates whose texts leave early: exits on what has learned, at thresholds that lose little."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path

from hf_albert_plus.eval.scoring import logits_scorer_for
from hf_albert_plus.eval.targets import Target

from ..compression.exits.exit_answers import AnswersOfExits
from ..records.progress import say
from .descent import LEAST_DROP, exit_drops
from .learning import Learning
from .ledger import Ledger
from .pick import Measured, is_small_enough
from .setbacks import SETBACKS
from .time_left import OutOfTime
from .tried import TEACHER, Tried, has_only_begun
from .workshop import WITH_EXITS, Threshold

# How much faster than without exits the teacher must be with them, so that they are worth trying on its shapes.
_WORTH_IT = 1.1
# How often what leaving early may lose is doubled where it holds.
_DOUBLINGS = 2


def teacher_leaves_early(learning: Learning) -> None:
    """What the teacher is with exits, which says what they are worth on its shapes; nothing where there is no time for them. Those that a search for
    another budget taught cost nothing."""
    shop, max_drop = learning.workshop, learning.budget.max_drop
    seen = learning.first_seen(TEACHER)
    if not shop.has_exits(TEACHER) and learning.time.exits_s() > learning.time.left_s:
        say("  exits are not tried: there is no time for them")
        return
    if seen.exits:
        with learning.without_cost(before=seen.at):
            shop.learn_exits(shop.whole, TEACHER)
    with learning.without_cost(before=seen.at):
        _try(learning, TEACHER, words="all layers", model=shop.whole, left=max_drop)


def is_worth_it(ledger: Ledger) -> bool:
    """Whether exits made the teacher faster, at what it may lose: then they do the same for what is cut from it."""
    return gain_on_teacher(ledger) >= _WORTH_IT


def gain_on_teacher(ledger: Ledger) -> float:
    """How many times as fast as without exits the teacher is with them, at what it may lose; 1 where it has none."""
    speeds = {each.name: each.speedup for each in ledger.finished}
    wanted = [name for name in speeds if name.startswith(f"{TEACHER}-exits")]
    if ledger.budget.seeks_speed:
        wanted = [name for name in wanted if ledger.holds(name)]
    return max((speeds[name] / speeds[TEACHER] for name in wanted), default=1.0)


def leave_early(ledger: Ledger, shapes: Sequence[Measured]) -> None:
    """Exits on shapes that have learned, where they are worth it on the teacher that these are cut from, and the file is small enough. Those
    whose rest waits have none before it."""
    if is_worth_it(ledger):
        for measured in shapes:
            if not has_only_begun(measured.name) and is_small_enough(measured, ledger.budget):
                shape_leaves_early(ledger, measured.name)


def take_up_exits(learning: Learning, shapes: Sequence[Measured]) -> None:
    """Those that earlier searches taught, the fastest shapes first: what they took to learn costs nothing of this one's time."""
    for each in sorted(shapes, key=lambda each: -each.speedup):
        seen = learning.first_seen(each.name)
        if seen.exits:
            leave_early_again(learning, each, before=seen.at)


def leave_early_again(learning: Learning, measured: Measured, *, before: str) -> None:
    """Exits that a shape was given in whichever run, and thresholds of them as far as there is time; what was made before a time costs nothing."""
    if is_worth_it(learning):
        with suppress(OutOfTime):
            # What they took is given back before a threshold asks how much time is left.
            with learning.without_cost(before=before):
                learning.workshop.learn_exits(learning.workshop.taught[measured.name][1], measured.name)
            with learning.without_cost(before=before):
                leave_early(learning, [measured])


def shape_leaves_early(ledger: Ledger, name: str) -> None:
    """Exits on a shape that has learned and holds, for what is left of the budget beside what the shape itself lost."""
    shape, taught = ledger.workshop.taught[name]
    if shape.layers == 1 or any(each.startswith(f"{name}-exits") for each in ledger.names()):
        return
    left = ledger.budget.max_drop
    if left is not None:
        left = _rounded(ledger, left - max(0.0, ledger.losses[name].rank))
    _try(ledger, name, words=shape.in_words(), model=taught, left=left)


def _try(ledger: Ledger, name: str, *, words: str, model: Path, left: float | None) -> None:
    """Teaches exits on a candidate, and tries thresholds: those that may lose most, which are the fastest, first, until one holds; then one between
    it and the last that did not. Where the first one holds, those that may lose twice as much come before that: the teacher may have learned the rows that
    thresholds are found on, and what is lost there is more than on rows that it has not seen.

    Args:
        left: points that they may lose; None where the budget has no such limit, and the least is tried alone.
    """
    if not ledger.workshop.has_exits(name):
        ledger.time.afford(ledger.time.exits_s())
    try:
        exits = ledger.workshop.learn_exits(model, name)
    except SETBACKS as error:
        say(f"  {words}, with exits: {error}")
        return
    leave = partial(_leave, ledger, exits, name=name, words=words, model=model, found={}, answered=AnswersOfExits())

    def holds(max_drop: float) -> bool:
        kept = leave(max_drop=max_drop)
        return kept is not None and ledger.holds(kept.name)

    drops = exit_drops(left, least=_least(ledger))
    failed = list(takewhile(lambda drop: not holds(drop), drops))
    if left is None or len(failed) == len(drops):
        return
    held, too_much = drops[len(failed)], failed[-1] if failed else None
    for _ in range(_DOUBLINGS):
        if too_much is None:
            twice = _twice(ledger, held)
            held, too_much = (twice, None) if holds(twice) else (held, twice)
    if too_much is not None:
        leave(max_drop=_rounded(ledger, (held + too_much) / 2))


def _leave(
    ledger: Ledger,
    exits: Path,
    *,
    name: str,
    words: str,
    max_drop: float,
    model: Path,
    found: dict[Threshold, Tried],
    answered: AnswersOfExits,
) -> Tried | None:
    """A candidate by one threshold, which is that of `found` where two allowances give the same; None where it cannot be exported, as no exit
    is ever taken."""
    # What an error may lose at least is a part of the budget, which another search in the same folder has another of.
    ending = "" if max_drop == LEAST_DROP and not ledger.task.is_scored_by_error else f"-{max_drop:g}"
    shop, folder, scorer = ledger.workshop, exits.parent, logits_scorer_for(ledger.task, model)
    at_threshold, leaving = folder / f"calibrated{ending}", folder / f"leaves-early{ending}"
    if not shop.was_made(at_threshold):
        ledger.time.afford(ledger.time.calibrating_s() + ledger.time.measuring_s())
    try:
        calibrated, threshold = shop.calibrate(exits, at_threshold, max_drop=max_drop, scorer=scorer, answered=answered)
        if threshold in found:
            return found[threshold]
        if not shop.was_made(leaving):
            ledger.time.afford(ledger.time.measuring_s())
        exported = shop.export(calibrated, leaving, to=WITH_EXITS)
    except SETBACKS as error:
        say(f"  {words}, with exits: {error}")
        return None
    target = Target("candidate", exported, WITH_EXITS)
    paces = shop.paces(target, folder / f"exit-paces{ending}", baseline=ledger.clock.target)
    words = f"{words}, leaves early" + (f" for {max_drop:g}" if ending else "")
    found[threshold] = ledger.keep(f"{name}-exits{ending}", words, exported, WITH_EXITS, paces=paces)
    return found[threshold]


def _least(ledger: Ledger) -> float:
    """What leaving early may lose where nothing else is said: a tenth of a point, and of an error a tenth of what may be lost."""
    return (ledger.budget.max_drop or 0.0) / 10 if ledger.task.is_scored_by_error else LEAST_DROP


def _twice(ledger: Ledger, lost: float) -> float:
    """Twice as much, of points no more than there are."""
    return _rounded(ledger, 2 * lost if ledger.task.is_scored_by_error else min(2 * lost, 100.0))


def _rounded(ledger: Ledger, left: float) -> float:
    """Tenths of points; an error has a unit of its own."""
    return float(f"{left:.2g}") if ledger.task.is_scored_by_error else round(left, 1)
