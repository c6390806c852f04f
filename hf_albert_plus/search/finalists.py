"""The candidates that are measured in turns at the end of a search: the pick and its neighbours, or what comes nearest."""

import math

from .hunt import Hunt
from .pick import Pick, affords
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
    within the limit though not for certain. They are as fast and as small as is asked, where anything is."""
    done = [each for each in hunt.tried if each.measured is not None]
    done = [each for each in done if each.measured is not None and affords(each.measured, hunt.budget)] or done
    surest = min(done, key=lambda each: _bound(each, pick))
    limit = hunt.budget.max_drop
    likely = [each for each in done if limit is None or pick.losses[each.name].points <= limit]
    fastest = max(likely, key=_speed, default=surest)
    return [surest] if fastest is surest else [surest, fastest]


def _bound(tried: Tried, pick: Pick) -> float:
    at_most = pick.losses[tried.name].at_most
    return math.inf if at_most is None else at_most


def _speed(tried: Tried) -> float:
    return 0.0 if tried.measured is None else tried.measured.speedup


def _beats(other: Tried, one: Tried, pick: Pick) -> bool:
    lost = pick.losses
    return _speed(other) > _speed(one) and lost[other.name].rank <= lost[one.name].rank
