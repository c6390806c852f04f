"""Schemes of tags: how the tags of a sentence's words say where entities begin and end, and the entities that they say."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import InvalidInput

# What begins, goes on with and ends an entity is written into a tag but for the last two: runs of one tag, and tags without entities.
TagScheme = Literal["IOB1", "IOB2", "IOBES", "BILOU", "runs", "plain"]
OUTSIDE = "O"
_PREFIXED = re.compile(r"[BIESLU]-.+", re.DOTALL)
# `B_PER`, `PER-B` and `B` alone.
_OTHER_PREFIX = re.compile(r"([BI])(?:[_:.](.+))?|(.+)[-_:.]([BI])", re.DOTALL)
_LETTERS: dict[TagScheme, frozenset[str]] = {"IOBES": frozenset("BIES"), "BILOU": frozenset("BILU")}
_REPAIR = "correct it, or write tags without prefixes: PER PER O"


def is_prefixed(tag: str) -> bool:
    """Whether a tag says where an entity begins or goes on, as `B-PER`."""
    return _PREFIXED.fullmatch(tag) is not None


@dataclass(frozen=True)
class Entity:
    """Words that are something together.

    Attributes:
        start, end: the first word, and the one after the last.
    """

    label: str
    start: int
    end: int


def entities(tags: Sequence[str], scheme: TagScheme) -> list[Entity]:
    """The entities of a sentence, as seqeval's strict mode reads them: tags that its scheme does not allow begin none.

    `runs` are neighbours with one tag other than O. `plain` tags have no entities.
    """
    if scheme == "plain":
        return []
    from seqeval import scheme as schemes

    if scheme == "runs":
        tags = [tag if tag == OUTSIDE else f"I-{tag}" for tag in tags]
    kinds = sorted({tag[2:] for tag in tags if tag != OUTSIDE})
    # Kinds go by their number: seqeval takes hyphens at either end of a name off.
    numbered = [tag if tag == OUTSIDE else f"{tag[0]}-{kinds.index(tag[2:])}" for tag in tags]
    found = schemes.Tokens(numbered, getattr(schemes, "IOB1" if scheme == "runs" else scheme)).entities
    return [Entity(kinds[int(each.tag)], each.start, each.end) for each in found]


def entity_labels(tags: Iterable[str], scheme: TagScheme) -> list[str]:
    """What the entities of a scheme's tags may be, in order."""
    if scheme == "plain":
        return []
    inside = [tag for tag in tags if tag != OUTSIDE]
    return sorted(set(inside) if scheme == "runs" else {tag[2:] for tag in inside})


def scheme_of_labels(labels: Sequence[str]) -> TagScheme:
    """The scheme that the names of a tagger's labels tell, where nobody says it: B and I alone are taken for IOB2."""
    inside = [label for label in labels if label != OUTSIDE]
    if not all(_PREFIXED.fullmatch(label) for label in inside):
        return "runs" if OUTSIDE in labels else "plain"
    letters = {label[0] for label in inside}
    if letters <= {"B", "I"}:
        return "IOB2" if "B" in letters else "IOB1"
    return "BILOU" if letters & {"L", "U"} else "IOBES"


def find_scheme(sentences: Sequence[Sequence[str]], *, where: str) -> TagScheme:
    """The scheme that the tags of training rows are written in.

    Raises:
        InvalidInput: tags with prefixes that belong to no scheme, or that break theirs.
    """
    counts = Counter(tag for tags in sentences for tag in tags if tag != OUTSIDE)
    prefixed = [tag for tag in counts if _PREFIXED.fullmatch(tag)]
    others = [tag for tag in counts if not _PREFIXED.fullmatch(tag)]
    if others or not counts:
        begin, go_on = ({tag[2:] for tag in prefixed if tag[0] == letter} for letter in "BI")
        if begin & go_on:
            raise InvalidInput(
                "where tags have prefixes, all but O must have one, as B-PER and I-PER",
                got=f"{others[0]!r} beside {prefixed[0]!r} in {where}",
                repair=_REPAIR,
            )
        if not any(OUTSIDE in tags for tags in sentences):
            return "plain"
        _check_no_other_prefixes(others, where=where)
        return "runs"
    letters = {tag[0] for tag in prefixed}
    if letters <= {"B", "I"}:
        if _first_fault(sentences, "IOB2") is None:
            return "IOB2"
        if _first_fault(sentences, "IOB1") is None:
            return "IOB1"
        check_scheme(sentences, "IOB2", where=where)
    scheme = next((name for name, allowed in _LETTERS.items() if letters <= allowed), None)
    if scheme is None:
        raise InvalidInput(
            "prefixes of tags must be those of one scheme: B, I of IOB; B, I, E, S of BIOES; B, I, L, U of BILOU",
            got=f"{', '.join(sorted(letters))} in {where}",
            repair=_REPAIR,
        )
    check_scheme(sentences, scheme, where=where)
    return scheme


def _check_no_other_prefixes(tags: Sequence[str], *, where: str) -> None:
    """Refuses B and I without a kind, or written otherwise than `B-PER`: `B_PER`, `PER-B`.

    Raises:
        InvalidInput: such tags.
    """
    written: dict[str, dict[str, str]] = {}
    for tag in tags:
        part = _OTHER_PREFIX.fullmatch(tag)
        if part is not None:
            written.setdefault(part[2] or part[3] or "", {})[part[1] or part[4]] = tag
    for kind, there in written.items():
        if len(there) > 1:
            raise InvalidInput(
                "where an entity begins and goes on must be written as B-PER and I-PER",
                got=f"{there['B']!r} and {there['I']!r} in {where}",
                repair=f"write B-{kind or 'X'} and I-{kind or 'X'}",
            )


def check_scheme(sentences: Sequence[Sequence[str]], scheme: TagScheme, *, where: str) -> None:
    """Refuses tags that break their scheme.

    Raises:
        InvalidInput: such a tag.
    """
    fault = _first_fault(sentences, scheme)
    if fault is None:
        return
    row, word = fault
    before = sentences[row][word - 1] if word else "the beginning"
    tag = sentences[row][word] if word < len(sentences[row]) else "the end"
    raise InvalidInput(
        f"tags must be {scheme}, in which {_RULES[scheme]}",
        got=f"{tag} after {before} (word {word + 1} of row {row + 1}) in {where}",
        repair=_REPAIR,
    )


_RULES = {
    "IOB1": "B-X follows I-X or B-X alone",
    "IOB2": "I-X follows B-X or I-X alone",
    "IOBES": "I-X and E-X follow B-X or I-X, and nothing else does",
    "BILOU": "I-X and L-X follow B-X or I-X, and nothing else does",
}


def _first_fault(sentences: Sequence[Sequence[str]], scheme: TagScheme) -> tuple[int, int] | None:
    """The first row and word whose tag breaks a scheme; the word after the last of a sentence that ends within an entity."""
    if scheme not in _RULES:
        return None
    for row, tags in enumerate(sentences):
        before = OUTSIDE
        for word, tag in enumerate([*tags, OUTSIDE]):
            if not _may_follow(before, tag, scheme):
                return row, word
            before = tag
    return None


def _may_follow(before: str, tag: str, scheme: TagScheme) -> bool:
    goes_on = before[0] in "BI" and before != OUTSIDE and before[2:] == tag[2:]
    if scheme == "IOB2":
        return tag[0] != "I" or goes_on
    if scheme == "IOB1":
        return tag[0] != "B" or goes_on
    return goes_on and tag[0] in "IEL" if before[0] in "BI" else tag[0] not in "IEL"
