"""Rows of a range of lines, of plain text or of JSON, and the lines, each read in bounded memory however long it is."""

import codecs
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow

from ..errors import InvalidInput
from .columns import InputFormat, InputRows, check_characters
from .plan import PlannedPart

# Characters of a line that is needed whole.
_LONGEST = 64 << 20


_PIECE = 1 << 20


@dataclass(frozen=True)
class Lines:
    """The lines of a part with their numbers in the file, from 0, without what ends them.

    Attributes:
        most: characters of a line that are needed, about; None where the whole line is.
    """

    part: PlannedPart
    most: int | None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Reads a line at a time.

        Raises:
            InvalidInput: bytes that are not UTF-8, or a line that is needed whole and too long for that.
        """
        source, place = self.part.source, self.part.range
        with open(source.file, "rb") as stream:
            stream.seek(place.start)
            for number in range(place.first, place.first + place.rows):
                try:
                    line = self._line(stream)
                except UnicodeDecodeError as error:
                    raise InvalidInput(
                        f"line {number + 1} of {source.path} must be UTF-8",
                        got=f"the byte {error.object[error.start]:#04x}",
                        repair=f"convert it: iconv -f LATIN1 -t UTF-8 {source.path}",
                    ) from None
                if self.most is None and len(line) > _LONGEST:
                    raise InvalidInput(
                        f"line {number + 1} of {source.path} must have at most {_LONGEST} characters",
                        got="more",
                        repair="cut or remove that line",
                    )
                # A file may begin with a mark of its byte order.
                yield number, line if number else line.removeprefix("\ufeff")

    def _line(self, stream: BinaryIO) -> str:
        decoder = codecs.getincrementaldecoder("utf-8")()
        most = _LONGEST if self.most is None else self.most
        line = ""
        while True:
            raw = stream.readline(_PIECE)
            is_last = len(raw) < _PIECE or raw.endswith(b"\n")
            # All of it is decoded, so that what is not UTF-8 is found, and not all is kept.
            piece = decoder.decode(raw, final=is_last)
            line = line + piece if len(line) <= most else line
            if is_last:
                return line.removesuffix("\n").removesuffix("\r")


# What is read at a time.
_ROWS, _CHARACTERS = 64, 1 << 20


def text_rows(part: PlannedPart, wanted: InputFormat) -> Iterator[InputRows]:
    """Every line of a part once, in their order."""
    column = wanted.settings.text_column
    # What is copied is needed whole.
    most = None if wanted.settings.kept or wanted.characters is None else wanted.characters + 1
    lines = Lines(part, most=most)
    return _rows(((number, {column: line}) for number, line in lines), part, wanted)


def json_rows(part: PlannedPart, wanted: InputFormat) -> Iterator[InputRows]:
    """Every line of a part that is not blank.

    Raises:
        InvalidInput: a line that is no object, or one without a column.
    """
    return _rows(_objects(part, wanted), part, wanted)


def _objects(part: PlannedPart, wanted: InputFormat) -> Iterator[tuple[int, dict[str, Any]]]:
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


def _rows(values: Iterable[tuple[int, dict[str, Any]]], part: PlannedPart, wanted: InputFormat) -> Iterator[InputRows]:
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
        yield InputRows([number for number, _ in batch], texts, pyarrow.Table.from_arrays(kept, schema=wanted.kept))


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
