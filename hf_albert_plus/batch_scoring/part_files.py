"""The file of a part: what is written of each row, and what was counted in it. It is there whole or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow
import pyarrow.parquet as pq

from ..engines.text_answers import TextAnswers
from ..errors import InvalidInput
from ..records.files import sync
from ..records.outputs import new_file
from .answer_columns import AnswerColumns
from .columns import InputRows
from .plan import PlannedPart


@dataclass(frozen=True)
class OutputFormat:
    """The columns of the output.

    Attributes:
        answers: those that are the model's.
        kept: schema of those that are copied.
    """

    answers: AnswerColumns
    kept: pyarrow.Schema

    @property
    def schema(self) -> pyarrow.Schema:
        """All columns with their types."""
        fields = [
            ("file", pyarrow.string()), ("row", pyarrow.int64()), *((field.name, field.type) for field in self.kept),
            *self.answers.types.items(), ("tokens", pyarrow.int32()), ("truncated", pyarrow.bool_()),
        ]  # fmt: skip
        return pyarrow.schema(fields)

    def table(self, rows: InputRows, answers: TextAnswers, *, path: str) -> pyarrow.Table:
        """Rows with what a model says of them.

        Args:
            path: path of the file that the rows are of.
        """
        columns = {
            "file": [path] * len(rows.numbers),
            "row": rows.numbers,
            **self.answers.values(rows.texts, answers),
            "tokens": answers.tokens,
            "truncated": answers.truncated,
        }
        arrays = [
            rows.kept.column(field.name)
            if field.name in self.kept.names
            else pyarrow.array(columns[field.name], field.type)
            for field in self.schema
        ]
        return pyarrow.Table.from_arrays(arrays, schema=self.schema)


_FACTS = "hf_albert_plus"
# Workers that may die at a part.
_PATIENCE = 8


@dataclass(frozen=True)
class Tally:
    """What was counted in a part, or in several.

    Attributes:
        truncated: texts that were cut.
    """

    rows: int = 0
    tokens: int = 0
    truncated: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.rows + other.rows, self.tokens + other.tokens, self.truncated + other.truncated)


@contextmanager
def attempt(part: PlannedPart, file: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Opens a file of its own for each attempt at a part: one that was given up may still write to its own. Those of the dead stay until the
    part is done, and so are counted.

    Raises:
        InvalidInput: too many died.
    """
    names = [file.with_name(f".{file.name}.{number}.tmp") for number in range(_PATIENCE)]
    free = [name for name in names if not name.exists()]
    if not free:
        first, rows = part.range.first, part.range.rows
        raise InvalidInput(
            f"a worker must live through rows {first} to {first + rows - 1} of {part.source.path}",
            got=f"{_PATIENCE} that died of them",
            repair="if they lack memory, use fewer --cores, a smaller --token-budget or a smaller --max-length",
        )
    with os.fdopen(new_file(free[0]), "wb") as stream:
        try:
            yield stream, free[0]
        finally:
            free[0].unlink(missing_ok=True)
    for dead in names:
        dead.unlink(missing_ok=True)


def give_name(temporary: Path, file: Path) -> None:
    """Gives the file of an attempt the name of its part."""
    try:
        os.replace(temporary, file)
        sync(file.parent)
    except FileNotFoundError:
        # Another attempt has done this part, and cleared up.
        if not file.exists():
            raise


def note_tally(writer: pq.ParquetWriter, tally: Tally) -> None:
    """Writes into a part what was counted in it, where `tally_of` reads it."""
    writer.add_key_value_metadata({_FACTS: json.dumps(asdict(tally))})


def tally_of(file: Path) -> Tally:
    """What was counted when a part was written."""
    return Tally(**json.loads(pq.read_metadata(file).metadata[_FACTS.encode()]))


def check_part(file: Path) -> None:
    """Reads a part that an earlier run has written: its pages have checksums.

    Raises:
        InvalidInput: it is no such part, or not as it was written.
    """
    try:
        if file.is_symlink():
            raise OSError("it is a link")
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            rows = sum(batch.num_rows for batch in opened.iter_batches())
        if rows != tally_of(file).rows:
            raise OSError(f"{rows} rows of {tally_of(file).rows}")
    except (OSError, pyarrow.ArrowException, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            "a part must be what was written", got=f"{file} ({error})", repair="it is scored anew"
        ) from None
