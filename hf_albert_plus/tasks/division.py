"""A validation split taken off the training rows where the data have none: stratified, seeded, equal texts on one side."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence

# A class with fewer rows gives none away.
_LEAST = 4
# Where no class has as many, some of those with so many give one each, until the share is reached.
_FEW = 3


def split_off(
    texts: Sequence[str], classes: Sequence[object] | None, *, share: float, seed: int
) -> tuple[list[int], list[int]]:
    """The places of the training rows, and of the rows held out.

    The order of the rows does not matter, and rows of one class with the same text stay together. A text that stands in more rows than twice
    a class's share stays in training.

    Args:
        texts: what tells rows apart.
        classes: each row's class, of which every one gives its share; None for numbers and several labels.
        share: of the rows to hold out.
        seed: decides which.
    """
    of_class: dict[object, list[int]] = defaultdict(list)
    for place in range(len(texts)):
        of_class[None if classes is None else classes[place]].append(place)
    wanted = {name: max(1, round(share * len(places))) for name, places in of_class.items() if len(places) >= _LEAST}
    if not wanted:
        few = sorted(
            (name for name, places in of_class.items() if len(places) == _FEW), key=lambda name: _drawn(str(name), seed)
        )
        wanted = dict.fromkeys(few[: max(1, round(share * len(texts)))], 1)
    held: set[int] = set()
    all_groups = {name: _by_text(texts, of_class[name]) for name in wanted}
    for name, count in wanted.items():
        held.update(_chosen(all_groups[name], count=count, seed=seed))
    if not held:  # of few texts that many rows have, the rarest of each class
        for groups in all_groups.values():
            rarest = min(groups, key=lambda text: (len(groups[text]), _drawn(text, seed)))
            held.update(groups[rarest] if len(groups) > 1 else ())
    return [place for place in range(len(texts)) if place not in held], sorted(held)


def _by_text(texts: Sequence[str], places: Sequence[int]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for place in places:
        groups[texts[place]].append(place)
    return groups


def _chosen(groups: dict[str, list[int]], *, count: int, seed: int) -> list[int]:
    """The places of whole groups of equal texts, about so many; none where there is one text alone, or all groups are larger."""
    chosen: list[int] = []
    for text in sorted(groups, key=lambda text: _drawn(text, seed)) if len(groups) > 1 else ():
        if len(chosen) >= count:
            break
        if len(groups[text]) <= 2 * count:
            chosen += groups[text]
    return chosen


def _drawn(text: str, seed: int) -> bytes:
    """A place in an order that the seed decides."""
    return hashlib.blake2b(f"{seed} {text}".encode(errors="replace")).digest()
