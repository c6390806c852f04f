"""Words cut by one of two vocabularies, the teacher's and the student's, and masked as words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerBase

from ...pretraining.masking import IGNORED, RANDOM, REPLACED


class Vocabulary(NamedTuple):
    """What masking asks of a tokenizer."""

    size: int
    mask_id: int


@dataclass(frozen=True)
class Pieces:
    """A sequence of pieces, without special tokens.

    Attributes:
        ids: each in the vocabulary that cut it.
        by_student: whether that is the student's.
        words: the number of the word that each belongs to.
    """

    ids: list[int]
    by_student: list[bool]
    words: list[int]


def cut_words(words: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """The pieces of every word, as the tokenizer cuts it inside a sentence."""
    if not words:
        return []
    return tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]


def draw_words(count: int, share: float, *, generator: torch.Generator | None = None) -> list[bool]:
    """Each of `count` words with the probability `share`."""
    return (torch.rand(count, generator=generator) < share).tolist()


def mix_words(
    teacher_pieces: Sequence[Sequence[int]], student_pieces: Sequence[Sequence[int]], by_student: Sequence[bool]
) -> Pieces:
    """One sequence of all words, each whole from one of its two cuts (Zhao et al. 2019, section 3, dual training)."""
    mixed = Pieces([], [], [])
    for word, (theirs, ours, student) in enumerate(zip(teacher_pieces, student_pieces, by_student, strict=True)):
        pieces = ours if student else theirs
        mixed.ids.extend(pieces)
        mixed.by_student.extend([student] * len(pieces))
        mixed.words.extend([word] * len(pieces))
    return mixed


def mask_words(
    pieces: Pieces,
    masked: Sequence[bool],
    *,
    teacher: Vocabulary,
    student: Vocabulary,
    generator: torch.Generator | None = None,
) -> tuple[list[int], list[int]]:
    """Ids with the pieces of the masked words replaced, and labels: their originals there, -100 elsewhere.

    Of these pieces 80 % become the mask token, 10 % a random piece and 10 % stay (BERT, section 3.1), each within the
    vocabulary that cut it.
    """
    fate = torch.rand(len(pieces.ids), generator=generator).tolist()
    place = torch.rand(len(pieces.ids), generator=generator, dtype=torch.float64).tolist()
    ids, labels = [], []
    for number, (piece, by_student, word) in enumerate(zip(pieces.ids, pieces.by_student, pieces.words, strict=True)):
        if not masked[word]:
            ids.append(piece)
            labels.append(IGNORED)
            continue
        vocabulary = student if by_student else teacher
        random = int(place[number] * vocabulary.size)
        ids.append(vocabulary.mask_id if fate[number] < REPLACED else random if fate[number] < RANDOM else piece)
        labels.append(piece)
    return ids, labels


__all__ = ["Pieces", "Vocabulary", "cut_words", "draw_words", "mask_words", "mix_words"]
