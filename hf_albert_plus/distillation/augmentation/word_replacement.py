"""Replacing words: which candidates each word of a text has, and a copy with some of them drawn."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from .masked_words import NONE, MaskedWords
from .whole_words import split_words
from .word_vectors import WordVectors

# For each word of a text the words that may replace it.
Candidates = Sequence[Sequence[str]]


def find_candidates(
    texts: list[str], *, masked_lm: MaskedWords | None, word_vectors: WordVectors | None, count: int
) -> Callable[[str], Candidates]:
    """The candidates of every word of the texts: the masked LM's, where it has none the nearest words'."""
    likely = masked_lm.candidates(texts, count=count) if masked_lm is not None else {}
    lower = masked_lm is not None and masked_lm.vocabulary.lower_cases

    def of_masked_lm(text: str) -> list[list[str]]:
        if masked_lm is None:
            return [[] for _ in text.split()]
        return [[masked_lm.vocabulary.words[i] for i in ids if i != NONE] for ids in likely[text].tolist()]

    def stems(text: str) -> Iterator[str]:
        return (word.stem.lower() if lower else word.stem for word in split_words(text))

    others = {stem for text in texts for stem, found in zip(stems(text), of_masked_lm(text), strict=True) if not found}
    nearest = word_vectors.nearest(others - {""}, count=count) if word_vectors is not None else {}

    def candidates_of(text: str) -> Candidates:
        return [found or nearest.get(stem, []) for stem, found in zip(stems(text), of_masked_lm(text), strict=True)]

    return candidates_of


def replace_words(text: str, candidates: Candidates, *, probability: float, random: Random) -> tuple[str, int]:
    """A copy of a text, each word that has candidates replaced by one of them with a probability; and how many were."""
    words = []
    replaced = 0
    for (stem, tail), options in zip(split_words(text), candidates, strict=True):
        replace = bool(options) and random.random() < probability
        words.append((random.choice(options) if replace else stem) + tail)
        replaced += replace
    return " ".join(words), replaced


def replace_in_row(
    row: dict[str, Any], candidates: dict[str, Candidates], *, probability: float, random: Random
) -> tuple[dict[str, Any], int]:
    """A copy of a row with words replaced in every text column, each independently of the others; and how many were."""
    copy = dict(row)
    replaced = 0
    for column, of_text in candidates.items():
        copy[column], count = replace_words(row[column], of_text, probability=probability, random=random)
        replaced += count
    return copy, replaced


__all__ = ["Candidates", "find_candidates", "replace_in_row", "replace_words"]
