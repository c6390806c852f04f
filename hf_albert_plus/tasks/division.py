"""A validation split taken off the training rows where the data have none: stratified, seeded, near-copies on one side."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from .near_copies import groups_of_near_copies

# A class with fewer rows gives none away.
_LEAST = 4
# Where no class has as many, some of those with so many give one each, until the share is reached.
_FEW = 3
# How alike texts are that stay together. Where too few rows could be held out so, only those that are more alike do.
_ALIKE = (0.7, 0.85, 1.0)
_ENOUGH = 0.5

Places = list[int]


def split_off(
    texts: Sequence[str], classes: Sequence[object] | None, *, share: float, seed: int, near_copies: bool = True
) -> tuple[Places, Places]:
    """The places of the training rows, and of the rows held out.

    The order of the rows does not matter. Rows with nearly the same text, or with a part of another one's, stay together, as do their
    own near-copies (`groups_of_near_copies`). A group of more rows than twice the share of one of its classes stays in training. Where
    this leaves less than half of the share, it is rows of one class with the same text that stay together.

    Args:
        texts: what tells rows apart.
        classes: each row's class, of which every one gives its share; None for numbers and several labels.
        share: of the rows to hold out.
        seed: decides which.
        near_copies: whether they stay together; else only equal texts of a class do.
    """
    classes = [None] * len(texts) if classes is None else classes
    wanted = _wanted(classes, share=share, seed=seed)
    enough = _ENOUGH * sum(wanted.values())
    for alike in _ALIKE if near_copies else ():
        groups = _grouped(groups_of_near_copies(texts, alike=alike))
        held = _chosen(groups, texts, classes, wanted=wanted, seed=seed)
        if held and len(held) >= enough:
            return _parts(held, of=len(texts))
    groups = _grouped(list(zip(classes, texts, strict=True)))
    held = _chosen(groups, texts, classes, wanted=wanted, seed=seed)
    return _parts(held or _rarest(groups, texts, classes, wanted=wanted, seed=seed), of=len(texts))


def _wanted(classes: Sequence[object], *, share: float, seed: int) -> dict[object, int]:
    """How many rows each class gives."""
    counts = Counter(classes)
    wanted = {name: max(1, round(share * count)) for name, count in counts.items() if count >= _LEAST}
    if wanted:
        return wanted
    few = sorted((name for name, count in counts.items() if count == _FEW), key=lambda name: _drawn(str(name), seed))
    return dict.fromkeys(few[: max(1, round(share * len(classes)))], 1)


def _grouped(keys: Sequence[Hashable]) -> list[Places]:
    groups: dict[Hashable, Places] = defaultdict(list)
    for place, key in enumerate(keys):
        groups[key].append(place)
    return list(groups.values())


def _chosen(
    groups: list[Places], texts: Sequence[str], classes: Sequence[object], *, wanted: dict[object, int], seed: int
) -> Places:
    """The places of whole groups, about as many as are wanted of each class: first groups whose classes all lack rows, then those of which
    one does, where no other has too many by it."""
    held: Counter[object] = Counter()
    chosen: Places = []
    left: list[tuple[Places, Counter[object]]] = []
    for group in sorted(groups, key=lambda group: _drawn(min(texts[place] for place in group), seed)):
        of_class = Counter(classes[place] for place in group)
        if not all(count <= 2 * wanted.get(name, 0) for name, count in of_class.items()):
            continue
        if all(held[name] < wanted[name] for name in of_class):
            chosen += group
            held += of_class
        else:
            left.append((group, of_class))
    for group, of_class in left:
        lacks = any(held[name] < wanted[name] for name in of_class)
        if lacks and all(held[name] + count <= 2 * wanted[name] for name, count in of_class.items()):
            chosen += group
            held += of_class
    return chosen


def _rarest(
    groups: list[Places], texts: Sequence[str], classes: Sequence[object], *, wanted: dict[object, int], seed: int
) -> Places:
    """The rarest text of each class that has several, where all have too many rows to be chosen."""
    of_class: dict[object, list[Places]] = defaultdict(list)
    for group in groups:
        of_class[classes[group[0]]].append(group)
    chosen: Places = []
    for name in wanted:
        rarest = min(of_class[name], key=lambda group: (len(group), _drawn(texts[group[0]], seed)))
        chosen += rarest if len(of_class[name]) > 1 else []
    return chosen


def _parts(held: Places, *, of: int) -> tuple[Places, Places]:
    out = set(held)
    return [place for place in range(of) if place not in out], sorted(out)


def _drawn(text: str, seed: int) -> bytes:
    """A place in an order that the seed decides."""
    return hashlib.blake2b(f"{seed} {text}".encode(errors="replace")).digest()
