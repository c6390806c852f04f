"""Words cut by two vocabularies, the teacher's and the student's, and masked as words.

Text becomes rows of words, each with both cuts. Rows become batches: a mixed sequence for the teacher, the student's own cut
for the student.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from ...errors import InvalidInput
from ...model_inputs import IGNORED
from ...pretraining.masking import MASKED_SHARE, RANDOM, REPLACED
from ...training.row_order import RowDraws

if TYPE_CHECKING:
    from datasets import Dataset


class Vocabulary(NamedTuple):
    """What masking asks of a tokenizer."""

    size: int
    mask_id: int


@dataclass(frozen=True)
class MixedPieces:
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
) -> MixedPieces:
    """One sequence of all words, each whole from one of its two cuts (Zhao et al. 2019, section 3, dual training)."""
    mixed = MixedPieces([], [], [])
    for word, (theirs, ours, student) in enumerate(zip(teacher_pieces, student_pieces, by_student, strict=True)):
        pieces = ours if student else theirs
        mixed.ids.extend(pieces)
        mixed.by_student.extend([student] * len(pieces))
        mixed.words.extend([word] * len(pieces))
    return mixed


def mask_words(
    pieces: MixedPieces,
    masked: Sequence[bool],
    *,
    teacher: Vocabulary,
    student: Vocabulary,
    generator: torch.Generator | None = None,
) -> tuple[list[int], list[int]]:
    """Ids with the pieces of the masked words replaced, and labels: their originals at these places, -100 elsewhere.

    Of these pieces 80 % become the mask token, 10 % a random piece and 10 % stay (BERT, section 3.1), each within the
    vocabulary that cut it.
    """
    fate = torch.rand(len(pieces.ids), generator=generator).tolist()
    draws = torch.rand(len(pieces.ids), generator=generator, dtype=torch.float64).tolist()
    ids, labels = [], []
    for number, (piece, by_student, word) in enumerate(zip(pieces.ids, pieces.by_student, pieces.words, strict=True)):
        if not masked[word]:
            ids.append(piece)
            labels.append(IGNORED)
            continue
        vocabulary = student if by_student else teacher
        random = int(draws[number] * vocabulary.size)
        ids.append(vocabulary.mask_id if fate[number] < REPLACED else random if fate[number] < RANDOM else piece)
        labels.append(piece)
    return ids, labels


_SPECIALS = 2


def word_rows(
    texts: Iterable[str], *, teacher: PreTrainedTokenizerBase, student: PreTrainedTokenizerBase, max_length: int
) -> "Dataset":
    """Blocks of words, the ones between spaces, with `teacher_pieces` and `student_pieces`.

    A block fits into `max_length` tokens whichever tokenizer cuts which word, special tokens among them, and holds words
    of one text. Each tokenizer reads the words themselves: nothing is cut that was cut before. A word that is longer
    than a block, or that one of the two has no piece for, is left out.

    Raises:
        InvalidInput: no word is left.
    """
    from datasets import Dataset

    room = max_length - _SPECIALS
    rows = [block for text in texts for block in _blocks(text.split(), teacher, student, room=room)]
    if not rows:
        raise InvalidInput(
            "the text must hold words between spaces, shorter than --max-length",
            got="none",
            repair="give a paragraph a line, or raise --max-length",
        )
    return Dataset.from_list(rows)


def _blocks(
    words: list[str], teacher: PreTrainedTokenizerBase, student: PreTrainedTokenizerBase, *, room: int
) -> Iterator[dict[str, Any]]:
    block: list[tuple[list[int], list[int]]] = []
    used = 0
    for cuts in zip(cut_words(words, teacher), cut_words(words, student), strict=True):
        longest = max(map(len, cuts))
        if not all(cuts) or longest > room:
            continue
        if used + longest > room:
            yield _row(block, used)
            block, used = [], 0
        block.append(cuts)
        used += longest
    if block:
        yield _row(block, used)


def _row(block: list[tuple[list[int], list[int]]], used: int) -> dict[str, Any]:
    return {
        "teacher_pieces": [theirs for theirs, _ in block],
        "student_pieces": [ours for _, ours in block],
        "length": used + _SPECIALS,
    }


MIXED = "mixed_"


class DualCollator:
    """Cuts and masks rows anew each time.

    The columns with `mixed_` before their names are the teacher's: `mixed_by_student` says which pieces the student's
    vocabulary cut. Special tokens there are the teacher's, and the same words are masked for both.

    Args:
        share: probability that a word of the teacher's sequence is cut by the student's tokenizer (the paper's p_DT).
    """

    def __init__(self, *, teacher: PreTrainedTokenizerBase, student: PreTrainedTokenizerBase, share: float, seed: int):
        self.teacher, self.student = teacher, student
        self.share = share
        self.draws = RowDraws(seed)
        self.vocabularies = _vocabulary(teacher), _vocabulary(student)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        sequences: list[dict[str, torch.Tensor]] = []
        for row in rows:
            cuts = row["teacher_pieces"], row["student_pieces"]
            count = len(row["student_pieces"])
            generator = self.draws.generator([piece for pieces in row["student_pieces"] for piece in pieces])
            masked = draw_words(count, MASKED_SHARE, generator=generator)
            by_student = draw_words(count, self.share, generator=generator)
            mixed = self._sequence(mix_words(*cuts, by_student), masked, self.teacher, generator)
            own = self._sequence(mix_words(*cuts, [True] * count), masked, self.student, generator)
            del own["by_student"]
            sequences.append({**own, **{MIXED + name: values for name, values in mixed.items()}})
        return {name: self._pad(name, [sequence[name] for sequence in sequences]) for name in sequences[0]}

    def _sequence(
        self, pieces: MixedPieces, masked: list[bool], tokenizer: PreTrainedTokenizerBase, generator: torch.Generator
    ) -> dict[str, torch.Tensor]:
        teacher, student = self.vocabularies
        ids, labels = mask_words(pieces, masked, teacher=teacher, student=student, generator=generator)
        return {
            "input_ids": torch.tensor([tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]),
            "attention_mask": torch.ones(len(ids) + 2, dtype=torch.long),
            "labels": torch.tensor([IGNORED, *labels, IGNORED]),
            "by_student": torch.tensor([False, *pieces.by_student, False]),
        }

    def _pad(self, name: str, values: list[torch.Tensor]) -> torch.Tensor:
        tokenizer = self.teacher if name.startswith(MIXED) else self.student
        padding: Any = {"input_ids": tokenizer.pad_token_id, "labels": IGNORED}.get(name.removeprefix(MIXED), 0)
        return pad_sequence(values, batch_first=True, padding_value=padding)


def _vocabulary(tokenizer: Any) -> Vocabulary:
    return Vocabulary(len(tokenizer), tokenizer.mask_token_id)
