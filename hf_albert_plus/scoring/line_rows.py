"""Rows of a range of lines: of plain text, or of JSON."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow

from ..errors import InvalidInput
from .lines import Lines
from .plan import Part
from .rows import Rows, Wanted, check_characters

# What is read at a time.
_ROWS, _CHARACTERS = 64, 1 << 20


def text_rows(part: Part, wanted: Wanted) -> Iterator[Rows]:
    """Every line of a part once, in their order."""
    column = wanted.settings.text_column
    # What is copied is needed whole.
    lines = Lines(part, most=None if wanted.settings.kept else wanted.characters + 1)
    return _rows(((number, {column: line}) for number, line in lines), part, wanted)


def json_rows(part: Part, wanted: Wanted) -> Iterator[Rows]:
    """Every line of a part that is not blank.

    Raises:
        InvalidInput: a line that is no object, or one without a column.
    """
    return _rows(_objects(part, wanted), part, wanted)


def _objects(part: Part, wanted: Wanted) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in Lines(part, most=None):
        if not line.strip():
            continue
        where = f"line {number + 1} of {part.source.path}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"{where} must be a JSON object", got=error, repair="mend or remove that line") from None
        if not isinstance(row, dict):
            raise InvalidInput(
                f"{where} must be a JSON object", got=type(row).__name__, repair="mend or remove that line"
            )
        for name in wanted.settings.columns:
            if name not in row:
                raise InvalidInput(
                    f"{where} must have {name!r}",
                    got=f"only {', '.join(list(row)[:10]) or 'an empty object'}",
                    repair="mend that line, or name another column",
                )
        yield number, {name: row[name] for name in wanted.settings.columns}


def _rows(values: Iterable[tuple[int, dict[str, Any]]], part: Part, wanted: Wanted) -> Iterator[Rows]:
    for batch in _batches(values):
        wheres = [f"line {number + 1} of {part.source.path}" for number, _ in batch]
        texts = [
            wanted.text([row[name] for name in wanted.settings.text_columns], where)
            for (_, row), where in zip(batch, wheres, strict=True)
        ]
        kept = [
            pyarrow.array([_as_text(name, row[name], where) for (_, row), where in zip(batch, wheres, strict=True)], pyarrow.string())
            for name in wanted.settings.kept
        ]  # fmt: skip
        yield Rows([number for number, _ in batch], texts, pyarrow.Table.from_arrays(kept, schema=wanted.kept))


def _batches(values: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    batch = []
    characters = 0
    for number, row in values:
        batch.append((number, row))
        characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(batch) >= _ROWS or characters >= _CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _as_text(name: str, value: Any, where: str) -> str | None:
    """A kept value: text as it is, all others as JSON."""
    if value is None:
        return None
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise InvalidInput(
            f"{name!r} must be JSON in {where}", got="one that nests too deeply", repair="mend or remove that row"
        ) from None
    check_characters(name, text, where)
    return text


__all__ = ["json_rows", "text_rows"]
