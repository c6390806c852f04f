"""Rows as they are read, and what is asked of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow

from ..errors import InvalidInput
from ..serving.answers import Text
from .settings import ScoreSettings


@dataclass(frozen=True)
class Rows:
    """Rows of a file.

    Attributes:
        numbers: that they have in it, from 0; of lines, blank ones counted.
        kept: the columns that go into the output, under their names there.
    """

    numbers: list[int]
    texts: list[Text]
    kept: pyarrow.Table

    @property
    def size(self) -> int:
        """Characters and bytes, about."""
        characters = sum(len(text) if isinstance(text, str) else len(text[0]) + len(text[1]) for text in self.texts)
        return characters + int(self.kept.nbytes)


def joined(pieces: Sequence[Rows]) -> Rows:
    return Rows(
        [number for piece in pieces for number in piece.numbers],
        [text for piece in pieces for text in piece.texts],
        pyarrow.concat_tables([piece.kept for piece in pieces]),
    )


@dataclass(frozen=True)
class Wanted:
    """
    Attributes:
        kept: schema of the columns that go into the output.
        characters: of a text that matter; what is beyond one more is not kept in memory.
    """

    settings: ScoreSettings
    kept: pyarrow.Schema
    characters: int

    def text(self, values: Sequence[Any], where: str) -> Text:
        """The text of a row, or both of a pair, with no more characters than show that there are too many.

        Args:
            values: of the text columns.
            where: file and row, for the error.

        Raises:
            InvalidInput: one of them is no text.
        """
        for name, value in zip(self.settings.text_columns, values, strict=True):
            if not isinstance(value, str):
                raise _no_text(name, where, "null" if value is None else type(value).__name__)
            check_characters(name, value, where)
        cut = [value[: self.characters + 1] for value in values]
        return (cut[0], cut[1]) if len(cut) == 2 else cut[0]


def check_characters(name: str, text: str, where: str) -> None:
    """
    Raises:
        InvalidInput: JSON may hold half of a surrogate pair, and nothing else can.
    """
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        raise _no_text(name, where, "half of a surrogate pair, which is no character") from None


def _no_text(name: str, where: str, got: str) -> InvalidInput:
    return InvalidInput(f"{name!r} must be text in {where}", got=got, repair="mend or remove that row")


__all__ = ["Rows", "Wanted", "check_characters", "joined"]
