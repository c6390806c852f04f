"""Rows of a task whose texts may be longer than a model takes, where the tokenizer does not just cut them at the end."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..model_inputs import IGNORED
from .joined_answers import text_numbers
from .long_texts import Piece, check_says_sequences
from .question_windows import NUMBER
from .task import Task
from .windows import Answering
from .word_pieces import UNSEEN, joined, word_rows

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

# The column of what each row answers for (see `Answering`), of texts that are read in windows.
ANSWERING = "answering"


def encode_long(
    columns: Sequence[Sequence[Any]],
    labels: Sequence[Any],
    numbers: Sequence[int],
    task: Task,
    tokenizer: "PreTrainedTokenizerBase",
    *,
    max_length: int,
) -> dict[str, list[Any]]:
    """Token ids of texts with `labels`; with windows a row for each of a text's, with what it is `answering` for.

    Each window has its text's label. The tag of a word stands in the window where the word is most central, and in no other. The first
    row of a text has its `first_pieces`, as places in the whole text.

    Args:
        columns: of texts, one or two.
        labels: of the texts, as they are trained on.
        numbers: of the texts.

    Raises:
        InvalidInput: a tokenizer that does not say which tokens are of the text, or windows that share too much.
    """
    task.long.check(max_length)
    check_says_sequences(tokenizer, task.long)
    whole: Any = {"truncation": False, "verbose": False}
    if task.has_tags:
        texts, spans = zip(*map(joined, columns[0]), strict=True)
        tokenised = tokenizer(list(texts), return_offsets_mapping=True, **whole)
        encoded = word_rows(dict(tokenised), texts, spans, labels)
    else:
        tokenised = tokenizer(*columns, **whole)
        encoded = {**tokenised, "labels": list(labels)}
    by_token = [name for name in encoded if name != "first_pieces" and (name != "labels" or task.has_tags)]
    rows: dict[str, list[Any]] = {name: [] for name in (*encoded, *([ANSWERING] if task.long.has_windows else []))}
    for place, number in enumerate(numbers):
        pieces = task.long.pieces(tokenised.sequence_ids(place), size=max_length)
        for piece in pieces:
            for name in by_token:
                rows[name].append(piece.of(encoded[name][place]))
            if task.has_tags:
                of_piece = enumerate(rows["labels"].pop())
                rows["labels"].append([tag if own in piece.answered else IGNORED for own, tag in of_piece])
                rows["first_pieces"].append([])
            else:
                rows["labels"].append(encoded["labels"][place])
            if task.long.has_windows:
                rows[ANSWERING].append(piece.answering(number))
        if task.has_tags:
            there = _places(pieces)
            rows["first_pieces"][-len(pieces)] = [there.get(first, UNSEEN) for first in encoded["first_pieces"][place]]
    return rows


def _places(pieces: Sequence[Piece]) -> dict[int, int]:
    """Place of a token in the whole text -> its place among those that are answered."""
    answered = [piece.places[own] for piece in pieces for own in piece.answered]
    return {place: number for number, place in enumerate(answered)}


def answering_of(rows: "Dataset") -> list[Answering] | None:
    """What each of some encoded rows answers for; None where each text has one row."""
    return rows[ANSWERING][:] if ANSWERING in rows.column_names else None


def numbers_of(rows: "Dataset") -> list[int] | None:
    """The number of the text that each of some encoded rows is a window of, or of the question; None where each text has one row."""
    if NUMBER in rows.column_names:
        numbers: list[int] = rows[NUMBER][:]
        return numbers
    answering = answering_of(rows)
    return None if answering is None else text_numbers(answering)
