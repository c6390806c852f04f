"""The rows of the inputs as they are read, what is asked of each, and the columns that they come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow
import pyarrow.parquet as pq

from ..engines.text_answers import Text
from ..errors import InvalidInput, first_line, suggest
from .settings import ScoreSettings
from .sources import Source


@dataclass(frozen=True)
class InputRows:
    """Rows of a file.

    Attributes:
        numbers: numbers of the rows in it, from 0; in lines, blank ones are counted.
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


def joined(pieces: Sequence[InputRows]) -> InputRows:
    """Rows of several pieces, in their order."""
    return InputRows(
        [number for piece in pieces for number in piece.numbers],
        [text for piece in pieces for text in piece.texts],
        pyarrow.concat_tables([piece.kept for piece in pieces]),
    )


@dataclass(frozen=True)
class InputFormat:
    """What is asked of every row.

    Attributes:
        kept: schema of the columns that go into the output.
        characters: how many of a text matter; what is beyond one more is not kept in memory. None where all may.
    """

    settings: ScoreSettings
    kept: pyarrow.Schema
    characters: int | None

    def text(self, values: Sequence[Any], where: str) -> Text:
        """The text of a row, or both of a pair, with no more characters than show that there are too many.

        Args:
            values: values of the text columns.
            where: file and row, for the error.

        Raises:
            InvalidInput: one of them is no text.
        """
        for name, value in zip(self.settings.text_columns, values, strict=True):
            if not isinstance(value, str):
                raise _no_text(name, where, "null" if value is None else type(value).__name__)
            check_characters(name, value, where)
        cut = list(values) if self.characters is None else [value[: self.characters + 1] for value in values]
        return (cut[0], cut[1]) if len(cut) == 2 else cut[0]


def check_characters(name: str, text: str, where: str) -> None:
    """Refuses half of a surrogate pair, which JSON may hold and nothing else can.

    Raises:
        InvalidInput: the text has one.
    """
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        raise _no_text(name, where, "half of a surrogate pair, which is no character") from None


def _no_text(name: str, where: str, got: str) -> InvalidInput:
    return InvalidInput(f"{name!r} must be text in {where}", got=got, repair="mend or remove that row")


_PAGES = 1 << 20


def open_parquet(source: Source) -> pq.ParquetFile:
    """Opens a file whose columns are read a page at a time.

    Raises:
        InvalidInput: it is no Parquet.
    """
    try:
        return pq.ParquetFile(source.file, buffer_size=_PAGES, pre_buffer=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise InvalidInput(
            "--input *.parquet must be Parquet", got=f"{source.path} ({first_line(error)})", repair="write it again"
        ) from None


def kept_schema(sources: Sequence[Source], settings: ScoreSettings) -> pyarrow.Schema:
    """The kept columns under their names in the output: of Parquet as they are, of lines as text.

    Raises:
        InvalidInput: a column that a file lacks, that holds no text and should, or that is not the same in every file.
    """
    first: pyarrow.Schema | None = None
    for source in sources:
        schema = _of_parquet(source, settings) if source.kind == "parquet" else _of_lines(source, settings)
        first = schema if first is None else first
        for one, other in zip(first, schema, strict=True):
            if one.type != other.type:
                raise InvalidInput(
                    f"a kept column must have one type in all inputs, and {one.name} is {one.type} in {sources[0].path}",
                    got=f"{other.type} in {source.path}",
                    repair="score them apart, or write them with one type",
                )
    return pyarrow.schema([]) if first is None else first


def _of_parquet(source: Source, settings: ScoreSettings) -> pyarrow.Schema:
    with open_parquet(source) as file:
        schema = file.schema_arrow
    for column, option in _asked(settings):
        if column not in schema.names:
            raise InvalidInput(
                f"{option} must be a column of {source.path}", got=repr(column), repair=suggest(column, schema.names)
            )
        if schema.names.count(column) > 1:
            raise InvalidInput(
                f"{option} must be one column of {source.path}", got=f"{column!r}, which several are called", repair="rename the others"
            )  # fmt: skip
    for column in settings.text_columns:
        if not _is_text(schema.field(column).type):
            raise InvalidInput(
                f"the column {column!r} of {source.path} must hold text",
                got=schema.field(column).type,
                repair="name the column that does: --text-column NAME",
            )
    kept = [(name, schema.field(column).type) for column, name in settings.kept.items()]
    return pyarrow.schema([(name, pyarrow.string() if _is_text(kind) else kind) for name, kind in kept])


def _of_lines(source: Source, settings: ScoreSettings) -> pyarrow.Schema:
    for column, option in _asked(settings):
        if source.kind == "lines of text" and column != settings.text_column:
            raise InvalidInput(
                f"{source.path} has one column, its lines, which are called {settings.text_column!r}",
                got=f"{option} {column}",
                repair=f"leave out {option} {column}, or score that file apart",
            )
    return pyarrow.schema([(name, pyarrow.string()) for name in settings.kept.values()])


def _asked(settings: ScoreSettings) -> list[tuple[str, str]]:
    """The columns that are asked for, each with the option that asks for it."""
    pair = [] if settings.pair_column is None else [(settings.pair_column, "--text-pair-column")]
    return [(settings.text_column, "--text-column"), *pair, *((column, "--keep") for column in settings.kept)]


def _is_text(kind: Any) -> bool:
    types = pyarrow.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(is_it(kind) for is_it in (types.is_string, types.is_large_string, types.is_string_view))
