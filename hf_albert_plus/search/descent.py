"""The order of a search for speed: ever faster while the budget holds, then between what held and what did not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

# A step down, a step up where nothing held yet, and the ratio of two times between which there is nothing worth trying.
_DOWN, _UP, _CLOSE = 0.6, 1.3, 1.15
# Points that exits may lose where nothing else is said.
LEAST_DROP = 0.1


@dataclass
class Descent:
    """Milliseconds a text to try next.

    Attributes:
        slowest: the whole teacher's, or a step above what is asked; nothing slower is tried.
        fastest: nothing faster is tried.
        useful: nothing slower can be as fast as is asked.
        held: the fastest time that kept within the budget.
        all_failed: the times that did not, in any order.
    """

    slowest: float
    fastest: float
    useful: float = math.inf
    held: float | None = None
    all_failed: list[float] = field(default_factory=list)

    @property
    def failed(self) -> float | None:
        """The slowest time that did not keep within the budget and is faster than what did: a slower one's shape was a bad one."""
        return max((ms for ms in self.all_failed if self.held is None or ms < self.held), default=None)

    @property
    def next_ms(self) -> float | None:
        """The time to try; None where there is none left that is worth it."""
        slower = self.held or self.slowest
        if self.failed is None:
            return min(max(_DOWN * slower, self.fastest), self.useful) if slower > _CLOSE * self.fastest else None
        if slower < _CLOSE * self.failed:
            return None
        between = math.sqrt(slower * self.failed)
        wanted = between if self.held else min(_UP * self.failed, between)
        return wanted if wanted <= self.useful else None

    def tell(self, ms: float, *, holds: bool) -> None:
        """What came of a time."""
        if holds:
            self.held = ms if self.held is None else min(self.held, ms)
        else:
            self.all_failed.append(ms)


def depths(layers: int) -> list[int]:
    """The depths that shapes of one speed are compared at, the deepest first: all layers, two thirds, a half and a third."""
    return sorted(
        {layers, max(1, round(2 * layers / 3)), max(1, round(layers / 2)), max(1, round(layers / 3))}, reverse=True
    )


def around(layers: int, known: Sequence[int]) -> list[int]:
    """Of the depths known the one that comes nearest, and its neighbours: what is compared at the next speed, where another depth may be
    better."""
    place = min(range(len(known)), key=lambda each: abs(known[each] - layers))
    return list(known[max(0, place - 1) : place + 2])


def exit_drops(left: float | None, *, least: float = LEAST_DROP) -> list[float]:
    """What leaving early may lose on the rows that thresholds are found on, in the order in which it is tried: all that is left of the
    budget, half of it, and next to nothing."""
    most = left or 0.0
    return [*(drop for drop in (most, most / 2) if drop > least), least]
