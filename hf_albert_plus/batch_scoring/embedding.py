"""The stage that writes vectors of the texts in files: read as batch scoring reads them, in this process, whole or not at all."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet as pq

from ..engines.text_encoder import TextEncoder, TextVectors
from ..engines.text_tokens import characters_read
from ..errors import InvalidInput
from ..records.outputs import check_directory
from ..records.progress import bar
from ..records.record import Record, file_parent, parent
from ..records.stage import run_stage
from .columns import InputFormat, InputRows, kept_schema
from .part_files import Tally
from .plan import Plan, RunIdentity, make_plan
from .settings import ScoreSettings
from .sources import find_sources
from .worker import portions

FILE, VECTOR = "vectors.parquet", "vector"


def embed(
    inputs: Sequence[str],
    *,
    engine: Path,
    runtime: str,
    output: Path,
    settings: ScoreSettings,
    cores: int | None = None,
) -> Record:
    """Writes the vector of every row of some files into `output/vectors.parquet`, in their order.

    Args:
        inputs: paths and patterns.
        engine: an export with `--pooling`.
        cores: that it may use, the physical ones by default.

    Raises:
        InvalidInput: nothing to read, an engine that gives no vectors, or a row that is no text.
        StageConflict: `output` is of something else, or another process is writing there.
    """
    check_directory(output, option="--output")
    if VECTOR in settings.kept.values():
        source = next(source for source, name in settings.kept.items() if name == VECTOR)
        raise InvalidInput(
            "--keep must not give two columns of the output one name", got=repr(VECTOR), repair=f"call it otherwise: --keep {source}=OTHER"
        )  # fmt: skip
    sources = find_sources(inputs, output=output)
    kept = kept_schema(sources, settings)
    encoder = TextEncoder(engine, runtime, cores=cores, max_length=settings.max_length)
    settings = replace(settings, max_length=encoder.max_seq_length)
    of_engine = parent(engine)
    identity = RunIdentity(settings={**settings.describe(), "runtime": runtime}, engine=of_engine)
    files = {f"input {number}": file_parent(Path(source.file)) for number, source in enumerate(sources)}

    def work(directory: Path) -> dict[str, Any]:
        plan = make_plan(sources, settings, identity=identity, old=None)
        return _write(
            plan, directory / FILE, encoder, InputFormat(settings, kept, characters_read(encoder.max_seq_length))
        )

    return run_stage("embed", output, settings=identity["settings"], parents={"engine": of_engine, **files}, work=work)


def _write(plan: Plan, file: Path, encoder: TextEncoder, wanted: InputFormat) -> dict[str, Any]:
    """Writes the vectors of every row of a plan.

    Returns:
        What was counted.
    """
    dimension, tally = encoder.get_sentence_embedding_dimension(), Tally()
    schema = pyarrow.schema(
        [
            ("file", pyarrow.string()), ("row", pyarrow.int64()), *((field.name, field.type) for field in wanted.kept),
            (VECTOR, pyarrow.list_(pyarrow.float32(), dimension)), ("tokens", pyarrow.int32()), ("truncated", pyarrow.bool_()),
        ]
    )  # fmt: skip
    with (
        pq.ParquetWriter(file, schema, write_page_checksum=True) as writer,
        bar(total=plan.rows, description="embed", unit_scale=True) as progress,
    ):
        for part in plan.parts():
            for rows in portions(part, wanted):
                answers = encoder.answer(rows.texts, token_budget=wanted.settings.token_budget)
                writer.write_table(_table(rows, answers, path=part.source.path, schema=schema))
                tally += Tally(len(rows.numbers), sum(answers.tokens), sum(answers.truncated))
                progress.update(len(rows.numbers))
    return {**vars(tally), "files": len(plan.sources), "dimension": dimension}


def _table(rows: InputRows, answers: TextVectors, *, path: str, schema: pyarrow.Schema) -> pyarrow.Table:
    """Rows with their vectors.

    Args:
        path: path of the file that the rows are of.
    """
    numbers = pyarrow.array(answers.vectors.astype(numpy.float32, copy=False).ravel())
    columns = {
        "file": [path] * len(rows.numbers),
        "row": rows.numbers,
        VECTOR: pyarrow.FixedSizeListArray.from_arrays(numbers, answers.vectors.shape[1]),
        "tokens": answers.tokens,
        "truncated": answers.truncated,
    }
    arrays = [
        rows.kept.column(field.name)
        if field.name in rows.kept.column_names
        else columns[field.name]
        if field.name == VECTOR
        else pyarrow.array(columns[field.name], field.type)
        for field in schema
    ]
    return pyarrow.Table.from_arrays(arrays, schema=schema)
