"""Words of a text, and what a tagger says of them: a tag for each, and the entities that these are, with their characters in the text.

Characters are Unicode's code points, as Python counts them, in the text as it came: a letter with a combining mark after it is two.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
from typing_extensions import TypedDict

from ..tasks.tag_schemes import entities
from ..tasks.word_pieces import UNSEEN, Span, first_pieces
from .marks import is_joined
from .text_answers import AnswerRule, TextAnswers


class TaggedWord(TypedDict):
    """A word with its tag. `score` is the tag's probability; null of a word that the model did not see, which has the first tag."""

    word: str
    start: int
    end: int
    tag: str
    score: float | None


class TaggedEntity(TypedDict):
    """Words that are something together. `score` is the mean of theirs, `words` the first of them and the one after the last."""

    label: str
    text: str
    start: int
    end: int
    score: float
    words: tuple[int, int]


@dataclass(frozen=True)
class TaggedText:
    """What a tagger says of a text."""

    words: list[TaggedWord]
    entities: list[TaggedEntity]


def words_of(text: str) -> list[Span]:
    """The characters of each word: what blanks separate, with the punctuation at either end of it as words of their own, a mark each.

    Punctuation within a word is part of it, as in o'clock and 3.14.
    """
    spans: list[Span] = []
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        end = start
        while end < len(text) and not text[end].isspace():
            end += 1
        first, last = start, end
        while first < last and _is_mark(text[first]) and not _goes_on(text, first + 1, last):
            first += 1
        while last > first and _is_mark(text[last - 1]):
            last -= 1
        spans += [(place, place + 1) for place in range(start, first)]
        spans += [(first, last)] if first < last else []
        spans += [(place, place + 1) for place in range(last, end)]
        start = end
    return spans


def tagged_texts(
    texts: Sequence[tuple[str, Sequence[Span]]], answers: TextAnswers, rule: AnswerRule
) -> list[TaggedText]:
    """The tags of texts' words by what a tagger says of their tokens: a word has what its first piece has.

    Args:
        texts: each with the characters of its words.
    """
    rows = zip(texts, answers.values, answers.offsets, strict=True)
    return [_tagged(text, spans, offsets, rule.scores(logits_SC), rule) for (text, spans), logits_SC, offsets in rows]


def _tagged(
    text: str, spans: Sequence[Span], offsets: Sequence[Span], scores_SC: numpy.ndarray, rule: AnswerRule
) -> TaggedText:
    words: list[TaggedWord] = []
    for (start, end), piece in zip(spans, first_pieces(text, offsets, spans), strict=True):
        best = 0 if piece == UNSEEN else int(scores_SC[piece].argmax())
        score = None if piece == UNSEEN else float(scores_SC[piece, best])
        words.append({"word": text[start:end], "start": start, "end": end, "tag": rule.labels[best], "score": score})
    found: list[TaggedEntity] = []
    for each in entities([word["tag"] for word in words], rule.scheme):
        members = words[each.start : each.end]
        start, end = members[0]["start"], members[-1]["end"]
        mean = sum(word["score"] or 0.0 for word in members) / len(members)
        found.append(
            {"label": each.label, "text": text[start:end], "start": start, "end": end, "score": mean, "words": (each.start, each.end)}
        )  # fmt: skip
    return TaggedText(words, found)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _goes_on(text: str, place: int, end: int) -> bool:
    """Whether a combining mark or a joiner at this place belongs to the character before it."""
    return place < end and is_joined(text[place])
