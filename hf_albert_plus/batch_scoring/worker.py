"""A worker: a model with all that it takes to score parts, read in portions that are bounded in rows and in characters."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy
import pyarrow
import pyarrow.parquet as pq

from ..engines.text_model_kinds import open_text_model
from ..records.files import late_errors
from .answer_columns import columns_of
from .columns import InputFormat, InputRows, joined
from .line_rows import json_rows, text_rows
from .parquet_rows import parquet_rows
from .part_files import OutputFormat, Tally, attempt, give_name, note_tally, tally_of
from .plan import PlannedPart
from .settings import ScoreSettings

_READERS = {"parquet": parquet_rows, "lines of JSON": json_rows, "lines of text": text_rows}


# What is tokenised, sorted by length and scored at a time.
_ROWS, _SIZE = 4096, 8 << 20


def portions(part: PlannedPart, wanted: InputFormat) -> Iterator[InputRows]:
    """Every row of a part once, in their order.

    Raises:
        InvalidInput: a row that is no text, with its file and number; or a file that is not the one that was planned.
    """
    part.source.check_unchanged()
    pending: list[InputRows] = []
    count = size = 0
    for rows in _READERS[part.source.kind](part, wanted):
        pending.append(rows)
        count, size = count + len(rows.numbers), size + rows.size
        if count >= _ROWS or size >= _SIZE:
            yield joined(pending)
            pending, count, size = [], 0, 0
    if pending:
        yield joined(pending)
    part.source.check_unchanged()


@dataclass(frozen=True)
class Job:
    """All that a worker must know besides its parts.

    Attributes:
        directory: directory of the model.
        folder: folder that the parts are written to.
        kept: schema of the columns that are copied.
    """

    directory: str
    runtime: str
    folder: str
    settings: ScoreSettings
    kept: pyarrow.Schema


class Worker:
    """A model with all that it takes to score parts."""

    def __init__(self, job: Job, *, cores: int):
        """Opens the model.

        Raises:
            InvalidInput: no such engine, or a model that answers no texts.
        """
        self.job = job
        self.model = open_text_model(job.directory, job.runtime, cores=cores, max_length=job.settings.max_length)
        self.input = InputFormat(job.settings, job.kept, self.model.characters)
        self.output = OutputFormat(columns_of(self.model.facts, with_logits=job.settings.logits), job.kept)

    def score(self, part: PlannedPart) -> Tally:
        """Writes a part, if it is not there.

        Raises:
            InvalidInput: a row that cannot be scored.
        """
        file = Path(self.job.folder) / part.name
        if file.exists():
            return tally_of(file)
        with attempt(part, file) as (stream, temporary):
            tally = self._write(part, stream)
            stream.flush()
            os.fsync(stream.fileno())
            give_name(temporary, file)
        return tally

    def _write(self, part: PlannedPart, stream: BinaryIO) -> Tally:
        tally = Tally()
        with (
            late_errors(stream) as late,
            pq.ParquetWriter(late, self.output.schema, write_page_checksum=True) as writer,
        ):
            for table in self._tables(part):
                writer.write_table(table)
                tally += Tally(table.num_rows, int(numpy.sum(table["tokens"])), int(numpy.sum(table["truncated"])))
            note_tally(writer, tally)
        return tally

    def _tables(self, part: PlannedPart) -> Iterator[pyarrow.Table]:
        for rows in portions(part, self.input):
            answers = self.model.answer(rows.texts, token_budget=self.job.settings.token_budget)
            yield self.output.table(rows, answers, path=part.source.path)
