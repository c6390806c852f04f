"""Shapes that are worth learning once more, where a search has time left and no other speed to try."""

from .learning import Learning
from .pick import Measured, affords, is_small_enough
from .shapes import Slimmed
from .tried import has_only_begun

# What counts as faster, beside what times differ by from one measuring to the next.
FASTER = 1.03


def next_to_learn_again(learning: Learning, *, slowest_ms: float) -> Slimmed | None:
    """Where speed is sought, what came nearest to the budget of the shapes that are faster than all that hold; else the shape that leads.
    None where there is none, where it learned again already, and where its last round gained nothing.

    Args:
        slowest_ms: milliseconds a text, beyond which a shape is of no use.
    """
    if learning.budget.seeks_speed:
        fastest = next((each.speedup for each in learning.of_holding()), 0.0)
        wanted = [
            each
            for each in misses(learning)
            if each.speedup > FASTER * fastest
            and is_small_enough(each, learning.budget)
            and (affords(each, learning.budget) or learning.clock.ms_of(each.speedup) <= slowest_ms)
        ]
    else:
        leader = learning.leader()
        wanted = [each for each in learning.shapes() if each == leader]
    shapes = {each.name: learning.workshop.taught[each.name][0] for each in wanted}
    open_ones = [
        name
        for name, shape in shapes.items()
        if not has_only_begun(name) and shape.again().name not in learning.names() and gained(shape, learning)
    ]
    nearest = min(open_ones, key=lambda name: learning.losses[name].bound, default=None)
    return None if nearest is None else shapes[nearest]


def misses(learning: Learning) -> list[Measured]:
    """The shapes that lose too much and have no like that holds, such as they are themselves after another round."""
    held = [learning.workshop.taught[each.name][0] for each in learning.of_holding()]
    return [
        each
        for each in learning.shapes()
        if not learning.holds(each.name) and not any(learning.workshop.taught[each.name][0].is_as(one) for one in held)
    ]


def gained(shape: Slimmed, learning: Learning) -> bool:
    """Whether the last round of a shape made it lose less, for certain."""
    lost = learning.losses
    return shape.rounds == 1 or shape.base is None or lost[shape.name].bound < lost[shape.base].bound
