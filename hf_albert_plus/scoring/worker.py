"""Scoring a part: all of its rows into one file, which is there whole or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy
import pyarrow
import pyarrow.parquet as pq

from hf_albert_plus.export.batching import pad_rows, run_batches, token_batches

from ..errors import InvalidInput
from ..files import late_errors, sync
from ..outputs import new_file
from ..serving.answers import Answers, Text
from ..serving.text_model import TextModel
from .answers import Answering
from .plan import Part
from .reading import portions
from .rows import Wanted
from .settings import ScoreSettings

_FACTS = "hf_albert_plus"
# Workers that may die at a part.
_PATIENCE = 8


@dataclass(frozen=True)
class Job:
    """All that a worker must know besides its parts.

    Attributes:
        directory: of the model.
        folder: that the parts are written to.
        kept: schema of the columns that are copied.
    """

    directory: str
    runtime: str
    folder: str
    settings: ScoreSettings
    kept: pyarrow.Schema


@dataclass(frozen=True)
class Tally:
    """What was counted in a part."""

    rows: int = 0
    tokens: int = 0
    truncated: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.rows + other.rows, self.tokens + other.tokens, self.truncated + other.truncated)


class Worker:
    """A model with all that it takes to score parts."""

    def __init__(self, job: Job, *, cores: int):
        """Opens the model.

        Raises:
            InvalidInput: no such engine, or no classifier.
        """
        self.job = job
        self.model = TextModel(job.directory, job.runtime, cores=cores, max_length=job.settings.max_length)
        self.wanted = Wanted(job.settings, job.kept, self.model.characters)
        self.answering = Answering(self.model.facts.labels, self.model.facts.problem_type, job.kept)

    def score(self, part: Part) -> Tally:
        """Writes a part, if it is not there.

        Raises:
            InvalidInput: a row that cannot be scored.
        """
        file = Path(self.job.folder) / part.name
        if file.exists():
            return tally_of(file)
        with _attempt(part, file) as (stream, temporary):
            tally = self._write(part, stream)
            stream.flush()
            os.fsync(stream.fileno())
            _give_name(temporary, file)
        return tally

    def _write(self, part: Part, stream: BinaryIO) -> Tally:
        tally = Tally()
        with (
            late_errors(stream) as late,
            pq.ParquetWriter(late, self.answering.schema, write_page_checksum=True) as writer,
        ):
            for table in self._tables(part):
                writer.write_table(table)
                tally += Tally(table.num_rows, int(numpy.sum(table["tokens"])), int(numpy.sum(table["truncated"])))
            writer.add_key_value_metadata({_FACTS: json.dumps(vars(tally))})
        return tally

    def _tables(self, part: Part) -> Iterator[pyarrow.Table]:
        for rows in portions(part, self.wanted):
            yield self.answering.table(rows, self._answers(rows.texts), path=part.source.path)

    def _answers(self, texts: list[Text]) -> Answers:
        encoded = self.model.encode(texts)
        rows = [dict(row) for row in encoded.rows]
        lengths = [len(row["input_ids"]) for row in rows]
        outputs = run_batches(
            self.model.engine,
            rows,
            token_batches(lengths, budget=self.job.settings.token_budget),
            pad=lambda batch: pad_rows(batch, self.model.tokenizer),
            streams=self.model.streams,
            description=None,
        )
        logits = numpy.stack([output["logits"].numpy() for output in outputs])
        return Answers(logits, lengths, encoded.truncated)


@contextmanager
def _attempt(part: Part, file: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A file of its own for each attempt at a part: one that was given up may still write to its own. Those of the dead stay until the
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


def _give_name(temporary: Path, file: Path) -> None:
    try:
        os.replace(temporary, file)
        sync(file.parent)
    except FileNotFoundError:
        # Another attempt has done this part, and cleared up.
        if not file.exists():
            raise


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


__all__ = ["Job", "Tally", "Worker", "check_part", "tally_of"]
