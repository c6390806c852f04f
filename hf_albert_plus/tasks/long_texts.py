"""Texts that are longer than a model takes: cut at the end, cut in the middle, or read in windows.

One setting says which, and one function cuts a row of tokens by it, wherever a row is made: for training, scoring and serving.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import InvalidInput, check_values
from .windows import Answering, most_central, windows

Way = Literal["cut", "head-tail", "windows"]
WAYS: tuple[Way, ...] = get_args(Way)
# Of what fits, the share of a text's beginning: 128 of BERT's 510 tokens, beside the last 382 (Sun et al., "How to Fine-Tune BERT for Text
# Classification?", 2019).
_HEAD = 128 / 510
# Of a window's tokens, those that it shares with the next one: one in so many.
_SHARED = 4
# Windows of a text that are read; what is beyond them is cut, so that the work for one text is bounded.
MOST_WINDOWS = 64
# Of a token that belongs to none of the texts.
_SPECIAL = None
# For each token of a row the number of the text that it is of, 0 or 1, or None.
Sequences = Sequence[int | None]


@dataclass(frozen=True)
class Piece:
    """A row of tokens that holds a text, or a part of it.

    Attributes:
        places: of the text's tokens, special ones among them, those that the piece has, in their order.
        answered: the piece's own tokens whose answers count: of those that several pieces have, each counts in one.
    """

    places: list[int]
    answered: range

    def of(self, values: Sequence[object]) -> list[object]:
        """The piece's own of one value for each token of the text."""
        return [values[place] for place in self.places]

    def answering(self, text: int) -> Answering:
        """The text and the tokens that the piece answers for, as a row has them."""
        return [text, self.answered.start, self.answered.stop]


@dataclass(frozen=True)
class LongTexts:
    """What happens to a text that is longer than the model takes.

    Attributes:
        way: `cut` leaves out its end, `head-tail` its middle; `windows` read it all, up to `MOST_WINDOWS` of them.
        overlap: tokens that neighbouring windows share at least, never more than half of what a window holds; None for a quarter of that.
    """

    way: Way = "cut"
    overlap: int | None = None

    def __post_init__(self) -> None:
        check_values(
            self,
            ("way", self.way in WAYS, f"one of {', '.join(WAYS)}", "cut"),
            ("overlap", self.overlap is None or self.overlap >= 0, "at least 0", "32"),
        )

    @property
    def is_cut(self) -> bool:
        """Whether the tokenizer does it by itself."""
        return self.way == "cut"

    @property
    def reads_end(self) -> bool:
        """Whether the end of a text is read, whatever is left out before it."""
        return self.way == "head-tail"

    @property
    def has_windows(self) -> bool:
        """Whether a text may become several rows."""
        return self.way == "windows"

    def check(self, size: int) -> None:
        """Refuses windows that share more than half of their tokens.

        Args:
            size: tokens that the model takes.

        Raises:
            InvalidInput: they do.
        """
        if self.overlap is not None and self.overlap > size // 2:
            raise InvalidInput(
                f"--window-overlap must be at most half of --max-length ({size})",
                got=self.overlap,
                repair=f"use --window-overlap {size // _SHARED}, or leave it out",
            )

    def pieces(self, sequences: Sequences, *, size: int) -> list[Piece]:
        """The rows that a text's tokens become, or those of a pair, by `head-tail` or `windows`. A text that fits is one row, as it is.

        Of a pair, windows are of the second text, each beside the first one, which is whole unless it takes more than half of the
        room and more than the second leaves: then it is cut at its end.

        Args:
            size: tokens that the model takes.

        Raises:
            InvalidInput: no room for words.
        """
        count = len(sequences)
        if count <= size:
            return [Piece(list(range(count)), range(count))]
        texts = [_tokens_of(number, sequences) for number in dict.fromkeys(sequences) if number is not _SPECIAL]
        room = size - (count - sum(map(len, texts)))
        if room < len(texts):
            raise InvalidInput(
                "--max-length must have room for words beside the special tokens", got=f"{size} with {size - room} of them", repair="use --max-length 128"
            )  # fmt: skip
        budgets = _budgets(texts, room)
        if not self.has_windows:
            return [_ends(texts, budgets, count=count)]
        # The room of a first text that is cut is what the windows of the second do not have.
        *first, body = texts
        cut = {place for text, budget in zip(first, budgets, strict=False) for place in text[budget:]}
        before = [place for place in range(body.start) if place not in cut]
        return self._windows(before, body, list(range(body.stop, count)), room=size - len(before) - (count - body.stop))

    def _windows(self, before: list[int], body: range, after: list[int], *, room: int) -> list[Piece]:
        """Windows of a body, each between what stands before and after it."""
        wanted = room // _SHARED if self.overlap is None else self.overlap
        spans = windows(len(body), size=room, overlap=min(wanted, room // 2))[:MOST_WINDOWS]
        answering = most_central(spans)
        pieces = []
        for number, span in enumerate(spans):
            places = [*before, *body[span.start : span.stop], *after]
            own = [len(before) + place - span.start for place in span if answering[place] == number]
            start = 0 if number == 0 else own[0]
            stop = len(places) if number == len(spans) - 1 else own[-1] + 1
            pieces.append(Piece(places, range(start, stop)))
        return pieces


CUT = LongTexts()


def is_whole(pieces: Sequence[Piece], count: int) -> bool:
    """Whether every one of so many tokens is in a piece."""
    return sum(len(piece.answered) for piece in pieces) == count


def check_says_sequences(tokenizer: object, long: LongTexts) -> None:
    """Refuses a tokenizer that does not say which of its tokens are of which text, where that must be known.

    Raises:
        InvalidInput: one that is not of the tokenizers library.
    """
    if not long.is_cut and not getattr(tokenizer, "is_fast", False):
        raise InvalidInput(
            f"--long {long.way} needs a fast tokenizer, which says which tokens are special",
            got=type(tokenizer).__name__,
            repair="use --long cut, or a model with a tokenizer.json",
        )


def _tokens_of(number: int, sequences: Sequences) -> range:
    """From the first token of a text to its last."""
    places = [place for place, of in enumerate(sequences) if of == number]
    return range(places[0], places[-1] + 1)


def _budgets(texts: list[range], room: int) -> list[int]:
    """Tokens for each of one text or two, which share the room: what the shorter one leaves is the other's."""
    if len(texts) == 1:
        return [room]
    first, second = map(len, texts)
    half = room // 2
    of_first = min(first, max(half, room - second))
    return [of_first, min(second, room - of_first)]


def _ends(texts: list[range], budgets: list[int], *, count: int) -> Piece:
    """The beginning and the end of each text, and all of what is between texts."""
    left_out: set[int] = set()
    for text, budget in zip(texts, budgets, strict=True):
        head = round(_HEAD * budget)
        left_out.update(text[head : head + len(text) - budget])
    places = [place for place in range(count) if place not in left_out]
    return Piece(places, range(len(places)))
