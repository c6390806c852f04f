"""Documents, read one at a time from parts of a corpus.

A corpus is cut into parts by its bytes, row groups or shards alone, so that the same corpus gives the same parts on any
machine, and any number of workers the same examples. A document belongs to the part that it begins in.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from ..errors import InvalidInput, first_line

PART_BYTES = 8 << 20
# A text without a blank line would be one document, whatever its size: it is cut at a line, and a line at a space.
LONGEST_DOCUMENT = 1 << 20
LONGEST_LINE = 1 << 18


@dataclass(frozen=True)
class Part:
    """What one worker reads at a time.

    Attributes:
        source: a file, or the id of a Hub dataset.
        kind: text, jsonl, parquet or hub.
        start: first byte, row group or shard.
        end: the one after the last.
        size: bytes, for the progress bar; 0 where they are not known before.
        column: of jsonl, parquet and Hub rows, the one that holds the text.
        revision: commit of a Hub dataset, so that all workers, and a run that goes on, read the same.
        option: that named the source, for the error.
    """

    source: str
    kind: str
    start: int
    end: int
    size: int
    column: str = "text"
    revision: str | None = None
    option: str = "--corpus"

    def documents(self) -> Iterator[list[str]]:
        """Every document that begins in this part, as its lines (paragraphs) without blank ones.

        Raises:
            InvalidInput: bytes that are not UTF-8, a line that is not JSON, or rows without the column.
        """
        readers = {"text": _of_text, "jsonl": _of_jsonl, "parquet": _of_parquet, "hub": _of_hub}
        return readers[self.kind](self)


def _of_text(part: Part) -> Iterator[list[str]]:
    """The documents of a part of a text file, parted by blank lines. A part begins after the first blank line at its start or later, and ends with the first
    one at its end or later, so that every document is read once."""
    with open(part.source, "rb") as stream:
        lines: list[str] = []
        size = 0
        ours = part.start == 0
        for position, raw, is_blank in _lines(stream, part.start):
            if not ours:
                if position >= part.end:
                    return
                ours = is_blank
                continue
            text = _decode(raw, part, position).strip()
            if text:
                lines.append(text)
                size += len(raw)
            if lines and (is_blank or size >= LONGEST_DOCUMENT):
                yield lines
                lines, size = [], 0
            if is_blank and position >= part.end:
                return
        if lines:
            yield lines


def _lines(stream: BinaryIO, start: int) -> Iterator[tuple[int, bytes, bool]]:
    """Position, bytes and blankness of every line that begins at `start` or later; an endless one comes in pieces."""
    if start:
        stream.seek(start - 1)
        while (raw := stream.readline(LONGEST_LINE)) and not raw.endswith(b"\n"):
            pass
    position = stream.tell()
    whole = True
    while raw := stream.readline(LONGEST_LINE):
        ends = raw.endswith(b"\n") or len(raw) < LONGEST_LINE
        if not ends:
            # Cut at a space, or where there is none, after a whole character.
            head = raw.rpartition(b" ")[0] or raw.decode("utf-8", errors="ignore").encode() or raw
            stream.seek(position + len(head))
            raw = head
        yield position, raw, whole and ends and not raw.strip()
        position += len(raw)
        whole = ends


def _decode(raw: bytes, part: Part, position: int) -> str:
    try:
        return raw.decode("utf-8-sig" if position == 0 else "utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{part.option} must be UTF-8",
            got=f"byte {raw[error.start]:#04x} at offset {position + error.start} of {part.source}",
            repair=f"convert it: iconv -f LATIN1 -t UTF-8 {part.source}",
        ) from None


def _of_jsonl(part: Part) -> Iterator[list[str]]:
    with open(part.source, "rb") as stream:
        if part.start:
            stream.seek(part.start - 1)
            stream.readline()
        while (position := stream.tell()) < part.end and (raw := stream.readline()):
            if raw.strip():
                yield from _of_row(_json(_decode(raw, part, position), part, position), part)


def _json(text: str, part: Part, position: int) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{part.option} *.jsonl must hold a JSON object a line",
            got=f"{first_line(error)} at offset {position} of {part.source}",
            repair="mend or remove that line",
        ) from None


def _of_parquet(part: Part) -> Iterator[list[str]]:
    import pyarrow
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(part.source) as file:
            _check_column(file.schema_arrow.names, part)
            for batch in file.iter_batches(
                batch_size=64, row_groups=range(part.start, part.end), columns=[part.column], use_threads=False
            ):
                for text in batch.column(0).to_pylist():
                    yield from _paragraphs(text, part)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{part.option} *.parquet must be readable, its text UTF-8", got=f"{part.source} ({first_line(error)})", repair="write it again"
        ) from None  # fmt: skip


def _of_hub(part: Part) -> Iterator[list[str]]:
    rows = open_hub(part.source, revision=part.revision)
    for row in rows.shard(num_shards=rows.num_shards, index=part.start):
        yield from _of_row(row, part)


def open_hub(name: str, *, revision: str | None) -> Any:
    """The training rows of `ID` or `ID:CONFIG`, streamed."""
    from datasets import load_dataset

    identifier, _, config = name.partition(":")
    return load_dataset(identifier, config or None, split="train", streaming=True, revision=revision)


def _of_row(row: Any, part: Part) -> Iterator[list[str]]:
    _check_column(list(row) if isinstance(row, dict) else [], part)
    return _paragraphs(row[part.column], part)


def _check_column(names: list[str], part: Part) -> None:
    if names.count(part.column) != 1:
        raise InvalidInput(
            f"--column must be a column of {part.source}",
            got=f"{part.column!r}, {'which several are called' if part.column in names else 'which none is called'}",
            repair=f"use one of {', '.join(names) or 'its columns; it has none'}",
        )


def _paragraphs(text: Any, part: Part) -> Iterator[list[str]]:
    """A row's text as one document; what is longer than a document may be, as several."""
    if text is not None and not isinstance(text, str):
        raise InvalidInput(
            f"--column must hold text in {part.source}", got=type(text).__name__, repair="name the column that does"
        )
    try:
        if text is not None and not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            f"--column must hold text in {part.source}",
            got="half of a surrogate pair, which is no character",
            repair="mend or remove that row",
        ) from None
    lines: list[str] = []
    size = 0
    for line in (text or "").splitlines():
        if line.strip():
            lines.append(line.strip())
            size += len(line)
        if size >= LONGEST_DOCUMENT:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines
