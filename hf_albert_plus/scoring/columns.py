"""The columns of the inputs: whether they are there, hold text, and what the kept ones are in the output."""

from collections.abc import Sequence
from typing import Any

import pyarrow
import pyarrow.parquet as pq

from ..errors import InvalidInput, first_line, suggest
from .settings import ScoreSettings
from .sources import Source

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
    found: pyarrow.Schema | None = None
    for source in sources:
        schema = _of_parquet(source, settings) if source.kind == "parquet" else _of_lines(source, settings)
        found = schema if found is None else found
        for one, other in zip(found, schema, strict=True):
            if one.type != other.type:
                raise InvalidInput(
                    f"a kept column must have one type in all inputs, and {one.name} is {one.type} in {sources[0].path}",
                    got=f"{other.type} in {source.path}",
                    repair="score them apart, or write them with one type",
                )
    return pyarrow.schema([]) if found is None else found


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
    """Every column with the option that asks for it."""
    pair = [] if settings.pair_column is None else [(settings.pair_column, "--pair-column")]
    return [(settings.text_column, "--text-column"), *pair, *((column, "--keep") for column in settings.kept)]


def _is_text(kind: Any) -> bool:
    types = pyarrow.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(is_it(kind) for is_it in (types.is_string, types.is_large_string, types.is_string_view))


__all__ = ["kept_schema", "open_parquet"]
