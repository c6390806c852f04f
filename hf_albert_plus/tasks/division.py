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

    The order of the rows does not matter, and rows of one class with the same text stay together.

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
    for name, count in wanted.items():
        groups: dict[str, list[int]] = defaultdict(list)
        for place in of_class[name]:
            groups[texts[place]].append(place)
        taken = 0
        for text in sorted(groups, key=lambda text: _drawn(text, seed)):
            if taken >= count or len(groups) == 1:
                break
            held.update(groups[text])
            taken += len(groups[text])
    return [place for place in range(len(texts)) if place not in held], sorted(held)


def _drawn(text: str, seed: int) -> bytes:
    """A place in an order that the seed decides."""
    return hashlib.blake2b(f"{seed} {text}".encode(errors="replace")).digest()
