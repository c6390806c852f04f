"""A validation split taken off the training rows where the data have none: stratified, seeded, near-copies on one side."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from .near_copies import groups_of_near_copies
from .row_texts import texts_of

if TYPE_CHECKING:
    from datasets import Dataset

    from .task import Task

# A class with fewer rows gives none away.
_LEAST = 4
# Where no class has as many, some of those with so many give one each, until the share is reached.
_FEW = 3
# How alike texts are that stay together. A class that gives too few rows so, or too many of whose rows stand in groups too large to be
# given away, gives some of which only more similar ones stay together, and in the end equal ones.
_ALIKE = (0.7, 0.85, 1.0)
_ENOUGH = 0.5
# A tenth of the rows is held out, or more of few: as many as judge a small loss, but at most a fifth.
_SHARE, _LARGEST_SHARE = 0.1, 0.2
_JUDGES = 1000


def share_of(rows: int) -> float:
    """The share of so many training rows that is held out where data have no validation split: a tenth, or more of less than 10,000
    rows, so that about 1,000 judge, but at most a fifth. Of a loss of a point with one row in twenty answered otherwise, 366 rows say
    that it is 1.2 points give or take, and 1,000 rows that it is 0.7."""
    return min(_LARGEST_SHARE, max(_SHARE, _JUDGES / rows)) if rows else _SHARE


def split_off(
    texts: Sequence[str], classes: Sequence[object] | None, *, share: float, seed: int, near_copies: bool = True
) -> tuple[list[int], list[int]]:
    """The places of the training rows, and of the rows held out.

    The order of the rows does not matter. Rows with nearly the same text, or with a part of another one's, stay together, as do their
    own near-copies (`groups_of_near_copies`). A group of more rows than twice the share of one of its classes stays in training. Of a
    class that gives less than half of its share so, as one whose texts are made by one pattern, only more similar rows stay together,
    and in the end those with the same text.

    Args:
        texts: what tells rows apart.
        classes: each row's class, of which every one gives its share; None for numbers and several labels.
        share: of the rows to hold out.
        seed: decides which.
        near_copies: whether they stay together; else only equal texts of a class do.
    """
    of_rows = (None,) * len(texts) if classes is None else tuple(classes)
    held = _held_out(tuple(texts), of_rows, share=share, seed=seed, near_copies=near_copies)
    return [place for place in range(len(texts)) if place not in held], sorted(held)


def divide_rows(
    rows: "Dataset", task: "Task", *, share: float, seed: int, near_copies: bool = True
) -> tuple[list[int], list[int]]:
    """The places of a task's rows that are kept, and of those held out, as `split_off` says. Questions of one context stay together."""
    texts = rows[task.columns[-1]][:] if task.has_spans else ["\x1f".join(parts) for parts in texts_of(rows, task)]
    classes = list(rows["label"]) if task.kind == "classes" else None
    return split_off(texts, classes, share=share, seed=seed, near_copies=near_copies)


@lru_cache(maxsize=1)
def _held_out(
    texts: tuple[str, ...], classes: tuple[object, ...], *, share: float, seed: int, near_copies: bool
) -> frozenset[int]:
    """The places held out. Data are divided once, however many of their splits are read."""
    rows = Counter(classes)
    choice = _Choice(wanted=_wanted(rows, share=share, seed=seed))
    for alike in _ALIKE if near_copies else ():
        if short := choice.short:
            groups = _grouped(groups_of_near_copies(texts, alike=alike), texts, classes, seed=seed)
            given = Counter(classes[place] for group in groups if choice.may_take(group) for place in group.places)
            choice.take(groups, {name for name in short if given[name] >= _ENOUGH * rows[name]})
    if choice.held and not choice.short:
        return frozenset(choice.held)
    equal = _grouped(list(zip(classes, texts, strict=True)), texts, classes, seed=seed)
    choice.take(equal, choice.short)
    if not choice.held:  # of few texts that many rows have, the rarest of each class
        for name in choice.wanted:
            groups = [group for group in equal if name in group.of_class]
            choice.held.update(min(groups, key=lambda group: len(group.places)).places if len(groups) > 1 else ())
    return frozenset(choice.held)


@dataclass(frozen=True)
class _Group:
    """Rows that stay together: their places, and how many are of each class."""

    places: list[int]
    of_class: Counter[object]


@dataclass
class _Choice:
    """What is held out.

    Attributes:
        wanted: class -> rows to hold out.
        held: their places.
        given: class -> rows held out.
    """

    wanted: dict[object, int]
    held: set[int] = field(default_factory=set)
    given: Counter[object] = field(default_factory=Counter)

    @property
    def short(self) -> set[object]:
        """Classes that give less than half of their share."""
        return {name for name, count in self.wanted.items() if self.given[name] < _ENOUGH * count}

    def may_take(self, group: _Group) -> bool:
        return all(count <= 2 * self.wanted.get(name, 0) for name, count in group.of_class.items())

    def take(self, groups: Sequence[_Group], names: set[object]) -> None:
        """Holds out groups with rows of some classes, in their order, until these give their share: first those whose classes all lack
        rows, then those of which one does, where no other gives too many by it."""
        left = []
        for group in groups:
            if names.isdisjoint(group.of_class) or not self.may_take(group) or not self.held.isdisjoint(group.places):
                continue
            if all(self._lacks(name) for name in group.of_class):
                self._hold(group)
            else:
                left.append(group)
        for group in left:
            if any(self._lacks(name) for name in names & group.of_class.keys()) and all(
                self.given[name] + count <= 2 * self.wanted[name] for name, count in group.of_class.items()
            ):
                self._hold(group)

    def _lacks(self, name: object) -> bool:
        return self.given[name] < self.wanted[name]

    def _hold(self, group: _Group) -> None:
        self.held.update(group.places)
        self.given.update(group.of_class)


def _wanted(counts: Counter[object], *, share: float, seed: int) -> dict[object, int]:
    """How many rows each class gives, of how many it has."""
    wanted = {name: max(1, round(share * count)) for name, count in counts.items() if count >= _LEAST}
    if wanted:
        return wanted
    few = sorted((name for name, count in counts.items() if count == _FEW), key=lambda name: _drawn(str(name), seed))
    return dict.fromkeys(few[: max(1, round(share * counts.total()))], 1)


def _grouped(keys: Sequence[Hashable], texts: Sequence[str], classes: Sequence[object], *, seed: int) -> list[_Group]:
    """The rows of each key, in an order that the seed and their first text decide."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    groups = [_Group(rows, Counter(classes[place] for place in rows)) for rows in places.values()]
    return sorted(groups, key=lambda group: _drawn(min(texts[place] for place in group.places), seed))


def _drawn(text: str, seed: int) -> bytes:
    """A place in an order that the seed decides."""
    return hashlib.blake2b(f"{seed} {text}".encode(errors="replace")).digest()
