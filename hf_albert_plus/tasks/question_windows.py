"""A question and its context as rows of token ids: the question whole in each, and of a long context a window with an overlap.

Where the answer of a training row lies outside of a window, the window says that it has none: both of its positions are those of the first
token, as in the script of Devlin et al. 2019.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidInput
from .windows import windows
from .word_pieces import Span, check_offsets

# Tokens that two neighbours share at least; half of a window where that is less.
OVERLAP = 128
# Of one context; what lies beyond the last is not read.
MOST_CONTEXT_WINDOWS = 128
# Tokens of a context that a window has at least, beside its question.
_LEAST_ROOM = 8
# What a row has beside what a model reads: the question's number; the place of the first token of its context, and which of the context's
# tokens it is; the characters of the context that each of these tokens is of; and the text that they are in, with its first character.
NUMBER, FIRST, TOKEN, CHARACTERS, TEXT, TEXT_START = "question", "first", "token", "characters", "text", "text_start"
ASIDE = (NUMBER, FIRST, TOKEN, CHARACTERS, TEXT, TEXT_START)
POSITIONS = ("start_positions", "end_positions")
# Where both positions of a window without its answer are.
NOWHERE = 0
Row = dict[str, Any]


def question_rows(
    ids: Mapping[str, Sequence[int]],
    *,
    sequences: Sequence[int | None],
    offsets: Sequence[Span],
    context: str,
    max_length: int,
    number: int = 0,
    called: str | None = None,
    repair: str = "shorten it, or raise --max-length if the model has positions",
) -> list[Row]:
    """The rows of a question with its context.

    Args:
        ids: of the two, of any length, by the name of the tensor.
        sequences: 1 for the tokens of the context, which stand together; 0 for those of the question, None for special ones.
        offsets: the characters that each token is of, in its own text.
        max_length: tokens of a row.
        number: the question's, among others.
        called: how a refusal names the question; by default by its number from 1.
        repair: what a refusal of a long question says.

    Raises:
        InvalidInput: a question that leaves no room for its context, or no special token before it.
    """
    inside = [place for place, sequence in enumerate(sequences) if sequence == 1]
    first = inside[0] if inside else len(sequences) - 1
    after = first + len(inside)
    if sequences[0] is not None:
        raise InvalidInput(
            "the tokenizer must begin a question with a special token, which stands for no answer",
            got="none",
            repair="use the tokenizer of BERT, ALBERT, RoBERTa or the like",
        )
    beside = len(sequences) - len(inside)
    room = max_length - beside
    if room < min(_LEAST_ROOM, len(inside)):
        raise InvalidInput(
            f"a question must leave room for {_LEAST_ROOM} tokens of its context within {max_length} tokens",
            got=f"{called or f'question {number + 1}'}, which has {beside} tokens with the special ones",
            repair=repair,
        )
    characters = list(offsets[first:after])
    cut = _cut(len(inside), room=room)
    return [
        {
            **{
                name: [*values[:first], *values[first + part.start : first + part.stop], *values[after:]]
                for name, values in ids.items()
            },
            NUMBER: number,
            FIRST: first,
            TOKEN: part.start,
            CHARACTERS: [list(characters[place]) for place in part],
            **_text_of(part, characters, context),
        }
        for part in cut[:MOST_CONTEXT_WINDOWS]
    ]


def _text_of(part: range, characters: Sequence[Span], context: str) -> Row:
    """The text that a window's tokens are of, up to the first character of the next one: a mark that belongs to the last is there too."""
    if not part:
        return {TEXT: "", TEXT_START: 0}
    start = characters[part.start][0]
    is_last = part.stop >= len(characters)
    end = len(context) if is_last else max(characters[part.stop - 1][1], characters[part.stop][0])
    return {TEXT: context[start:end], TEXT_START: start}


def window_count(sequences: Sequence[int | None], *, max_length: int) -> int:
    """Windows that the whole context of a question has, of which `MOST_CONTEXT_WINDOWS` are read."""
    tokens = sum(sequence == 1 for sequence in sequences)
    return len(_cut(tokens, room=max_length - (len(sequences) - tokens)))


def _cut(tokens: int, *, room: int) -> list[range]:
    """The tokens of a context in each of its windows, which have room for so many."""
    return windows(tokens, size=max(room, 1), overlap=min(OVERLAP, room // 2))


def answer_tokens(characters: Sequence[Span], answer: Span) -> range:
    """The tokens of a context that an answer is made of; none where the tokenizer drops its characters.

    Args:
        characters: of each token.
        answer: its first character, and the one after its last.
    """
    start, end = answer
    places = [place for place, (one, other) in enumerate(characters) if one < end and other > start and one < other]
    return range(places[0], places[-1] + 1) if places else range(0)


def positions_in(row: Row, tokens: range) -> tuple[int, int]:
    """The places of an answer's first and last token in a row; `NOWHERE` twice where they are not all there."""
    begin = row[TOKEN]
    if not tokens or tokens.start < begin or tokens.stop > begin + len(row[CHARACTERS]):
        return NOWHERE, NOWHERE
    shift = row[FIRST] - begin
    return tokens.start + shift, tokens.stop - 1 + shift


def encode_questions(
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[Mapping[str, Sequence[Any]]],
    tokenizer: Any,
    *,
    max_length: int,
    numbers: Sequence[int],
) -> dict[str, list[Any]]:
    """The rows of questions (see `question_rows`) as columns, with the places of the first answer's tokens, of none where a row lacks it.

    Args:
        answers: lists of `text` and `answer_start`.
        numbers: of the questions.

    Raises:
        InvalidInput: a tokenizer that does not say which characters its pieces are of or pads on the left, or a question that leaves no room
            for its context.
    """
    check_offsets(tokenizer)
    if tokenizer.padding_side != "right":
        raise InvalidInput(
            "a task of spans needs a tokenizer that pads on the right, where it moves no position",
            got=f"padding_side {tokenizer.padding_side!r}",
            repair='set padding_side to "right" in tokenizer_config.json',
        )
    encoded = tokenizer(list(questions), list(contexts), truncation=False, return_offsets_mapping=True, verbose=False)
    names = [name for name in encoded if name != "offset_mapping"]
    rows: list[Row] = []
    for place, (context, held, number) in enumerate(zip(contexts, answers, numbers, strict=True)):
        sequences, offsets = encoded.sequence_ids(place), encoded["offset_mapping"][place]
        ids = {name: encoded[name][place] for name in names}
        tokens = range(0)
        for text, start in _first(held):
            of_context = [offset for offset, sequence in zip(offsets, sequences, strict=True) if sequence == 1]
            tokens = answer_tokens(of_context, (start, start + len(text)))
        of_question = question_rows(
            ids, sequences=sequences, offsets=offsets, context=context, max_length=max_length, number=number,
        )  # fmt: skip
        for row in of_question:
            rows.append({**row, **dict(zip(POSITIONS, positions_in(row, tokens), strict=True))})
    return {name: [row[name] for row in rows] for name in (*names, *ASIDE, *POSITIONS)}


def _first(answers: Mapping[str, Sequence[Any]]) -> list[tuple[str, int]]:
    """The first answer's text and place, if there is one."""
    return list(zip(answers["text"], answers["answer_start"], strict=True))[:1]
