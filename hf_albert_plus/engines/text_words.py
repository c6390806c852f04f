"""Words of a text, and what a tagger says of them: a tag for each, and the entities that these are, with their characters in the text.

Characters are Unicode's code points, as Python counts them, in the text as it came: a letter with a combining mark after it is two.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from typing_extensions import TypedDict

from ..errors import InvalidInput, shown
from ..tasks.tag_schemes import entities
from ..tasks.word_pieces import UNSEEN, Span, empty_word, first_pieces, joined
from .marks import is_joined
from .text_answers import AnswerRule, TextAnswers, check_characters


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


def check_words(words: Any) -> list[str]:
    """The words of a text, as somebody gives them.

    Raises:
        InvalidInput: no list of strings, none, or one of nothing but blanks.
    """
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) for word in words):
        raise InvalidInput(
            "the words of a text must be a list of at least one string", got=shown(words), repair='give ["as", "this"]'
        )
    empty = empty_word(words)
    if empty is not None:
        raise InvalidInput(
            "words of a text must not be empty", got=f"{shown(words[empty])} as word {empty + 1}", repair="leave it out"
        )
    return list(words)


def worded(texts: Any) -> list[tuple[str, list[Span]]]:
    """Texts with the characters of their words, which are found in a text or given in place of it.

    Raises:
        InvalidInput: no list of texts or of lists of words, words that are none (see `check_words`), or half of a surrogate pair.
    """
    if not isinstance(texts, list | tuple):
        raise InvalidInput("texts must be in a list", got=shown(texts), repair='give ["a text"]')
    read = []
    for place, given in enumerate(texts):
        if not isinstance(given, str | list | tuple):
            raise InvalidInput(
                "a text must be a string or a list of its words",
                got=f"{shown(given)} as text {place}",
                repair='give "as this" or ["as", "this"]',
            )
        text, spans = (given, words_of(given)) if isinstance(given, str) else joined(check_words(given))
        check_characters(text, what="text", place=place)
        read.append((text, spans))
    return read


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
