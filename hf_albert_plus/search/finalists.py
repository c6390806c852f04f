"""The candidates that are measured in turns at the end of a search: the pick and its neighbours, or what comes nearest."""

from .hunt import Hunt
from .pick import Pick, affords, share_of_asked
from .tried import TEACHER, Tried


def finalists_of(hunt: Hunt, pick: Pick) -> list[Tried]:
    """The teacher in int8, the pick, and of what no other is both faster and better than the next on either side of it."""
    done = sorted((each for each in hunt.tried if each.measured is not None), key=lambda each: _speed(each))
    frontier = [each for each in done if not any(_beats(other, each, pick) for other in done)]
    named = [each.name for each in frontier]
    wanted = {TEACHER}
    if pick.name is not None:
        wanted.add(pick.name)
        place = named.index(pick.name) if pick.name in named else len(named)
        wanted |= set(named[max(0, place - 1) : place + 2])
    else:
        wanted |= {each.name for each in nearest(hunt, pick)}
    return [each for each in done if each.name in wanted]


def nearest(hunt: Hunt, pick: Pick) -> list[Tried]:
    """Where nothing keeps within the budget, the two that come closest: the one that loses least for certain, and the fastest whose loss is
    within the limit though not for certain, both as fast and as small as is asked. Where nothing is that, the first is what comes nearest
    to it with a loss within the limit."""
    limit = hunt.budget.max_drop
    finished = [(each, each.measured) for each in hunt.tried if each.measured is not None]
    likely = [pair for pair in finished if limit is None or pick.losses[pair[0].name].points <= limit]
    done = [each for each, measured in finished if affords(measured, hunt.budget)]
    if not done:
        closest, _ = max(likely or finished, key=lambda pair: share_of_asked(pair[1], hunt.budget))
        surest = min((each for each, _ in finished), key=lambda each: pick.losses[each.name].bound)
        return [closest] if closest is surest else [closest, surest]
    surest = min(done, key=lambda each: pick.losses[each.name].bound)
    fastest = max((each for each, _ in likely if each in done), key=_speed, default=surest)
    return [surest] if fastest is surest else [surest, fastest]


def _speed(tried: Tried) -> float:
    return 0.0 if tried.measured is None else tried.measured.speedup


def _beats(other: Tried, one: Tried, pick: Pick) -> bool:
    lost = pick.losses
    return _speed(other) > _speed(one) and lost[other.name].rank <= lost[one.name].rank
