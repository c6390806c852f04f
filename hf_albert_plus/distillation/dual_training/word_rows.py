"""Text as rows of words, each word with its cut by the teacher's tokenizer and by the student's."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from transformers import PreTrainedTokenizerBase

from ...errors import InvalidInput
from .segmentation import cut_words

if TYPE_CHECKING:
    from datasets import Dataset

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


__all__ = ["word_rows"]
