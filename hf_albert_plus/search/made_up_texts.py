"""More texts for candidates to learn from, made of the rows that they learn from: a task of few rows has too few for a thin model."""

from pathlib import Path
from random import Random
from typing import Any

from ..distillation.augmentation.noise import noised_rows, noised_sentences
from ..records.files import late_errors
from ..records.record import Record
from ..records.stage import run_stage
from ..tasks.row_texts import texts_of
from ..tasks.splits import data_parent, load_split
from .set_aside import DividedRows

# Rows from which on a task has enough, and texts for each row of one that has not.
ENOUGH, COPIES = 10_000, 3
_FILE = "texts.parquet"


def make_up_texts(rows: DividedRows, *, output: Path, seed: int) -> tuple[Path, Record]:
    """Writes three texts for every row that is learned from, of a tagger's rows three lists of words, and says where they are."""
    import pyarrow
    import pyarrow.parquet

    def work(directory: Path) -> dict[str, Any]:
        table = pyarrow.table(_made_up(rows, seed=seed))
        with (directory / _FILE).open("wb") as stream, late_errors(stream) as late:
            pyarrow.parquet.write_table(table, late)
        return {"texts": table.num_rows}

    settings = {"copies": COPIES, "seed": seed}
    parents = {"data": data_parent(str(rows.data), rows.task)}
    record = run_stage("made-up-texts", output, settings=settings, parents=parents, work=work)
    return output / _FILE, record


def _made_up(rows: DividedRows, *, seed: int) -> dict[str, list[Any]]:
    """The columns of the texts."""
    task, learned = rows.task, load_split(str(rows.data), rows.task, "train")
    how: dict[str, Any] = {"copies": COPIES, "random": Random(seed)}
    if task.has_tags:
        return {task.columns[0]: list(noised_sentences(list(learned[task.columns[0]]), **how))}
    columns = zip(*noised_rows(texts_of(learned, task), **how), strict=True)
    return dict(zip(task.columns, map(list, columns), strict=True))
