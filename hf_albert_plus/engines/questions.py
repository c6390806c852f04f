"""Questions with their contexts, as the rows of windows that an engine reads, and the answer to each by the logits of its windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from ..errors import InvalidInput, shown
from ..tasks.question_windows import MOST_CONTEXT_WINDOWS, question_rows, window_count
from .padding import OFFSETS, Ids
from .span_answers import best_span
from .text_answers import AnswerRule, Text, TextAnswers, check_characters
from .text_tokens import SEQUENCES, Encoded, characters_read


def context_characters(max_length: int) -> int:
    """Characters of a context that its windows can have."""
    return characters_read(max_length) * MOST_CONTEXT_WINDOWS


@dataclass(frozen=True, kw_only=True)
class AskedQuestions(Encoded):
    """Questions as rows of token ids, the windows of one's context after the other's.

    Attributes:
        places: which of the rows are each question's.
        windows: that each context has, whether they are read or not.
    """

    places: list[range]
    windows: list[int]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each row."""
        return [len(row["input_ids"]) for row in self.rows]

    def answers(self, logits: Sequence[numpy.ndarray], rule: AnswerRule) -> TextAnswers:
        """The answers, of the logits of each row, `[tokens, 2]`."""
        spans = [
            best_span(self.rows[part.start : part.stop], logits[part.start : part.stop], rule) for part in self.places
        ]
        return TextAnswers([], self.tokens, self.truncated, spans=spans)


def asked(
    texts: Sequence[Text], *, whole: Callable[[Sequence[Text]], list[Ids]], inputs: Sequence[str], max_length: int
) -> AskedQuestions:
    """Cuts questions with their contexts into windows.

    Args:
        texts: pairs of a question and its context; of a context no more characters are read than its windows could have.
        whole: pairs -> their rows of any length, with `OFFSETS` and `SEQUENCES`.
        inputs: names of the tensors that the model reads.
        max_length: tokens of a window.

    Raises:
        InvalidInput: no pair of strings, an empty one, half of a surrogate pair, or a question that leaves no room for its context.
    """
    most = context_characters(max_length)
    pairs = [_checked(text, place) for place, text in enumerate(texts)]
    cut = [(question, context if len(context) <= most else context[:most]) for question, context in pairs]
    rows: list[Any] = []
    places, counts, truncated = [], [], []
    for number, (pair, row) in enumerate(zip(cut, whole(cut), strict=True)):
        sequences = row[SEQUENCES]
        ids, context = {name: row[name] for name in inputs}, pair[1]
        found = question_rows(
            ids,
            sequences=sequences,
            offsets=row[OFFSETS],
            context=context,
            max_length=max_length,
            number=number,
            called=f"text {number}",
            repair="ask for less, or serve with a larger --max-length",
        )
        count = window_count(sequences, max_length=max_length)
        places.append(range(len(rows), len(rows) + len(found)))
        rows += found
        counts.append(count)
        truncated.append(count > len(found) or len(context) < len(pairs[number][1]))
    lengths = [len(row["input_ids"]) for row in rows]
    tokens = [sum(lengths[part.start : part.stop]) for part in places]
    return AskedQuestions(rows, tokens, truncated, places=places, windows=counts)


def _checked(text: Any, place: int) -> tuple[str, str]:
    if isinstance(text, str):
        raise InvalidInput(
            "a question is asked of a context", got=f"text {place} without one", repair="give both: (question, context)"
        )
    if not isinstance(text, tuple | list) or len(text) != 2 or not all(isinstance(part, str) for part in text):
        raise InvalidInput(
            "a question must be a pair of strings with its context",
            got=f"{shown(text)} as text {place}",
            repair="give (question, context)",
        )
    question, context = text
    for what, part in (("question", question), ("context", context)):
        if not part.strip():
            raise InvalidInput(f"a {what} must have words", got=f"an empty one in text {place}", repair="leave it out")
        check_characters(part, what=what, place=place)
    return question, context
