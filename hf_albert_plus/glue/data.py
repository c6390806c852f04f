"""Reading GLUE from a local folder in the layout of nyu-mll/glue, from the original TSV distribution, or from the Hub."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, first_line
from ..files import file_sha256
from ..input_files import check_input_file
from ..records import Parent
from .rows import task_rows
from .tasks import Task
from .tsv import read_tsv, tsv_file

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def load_split(data: str, task: Task, split: str, *, labelled: bool = True) -> "Dataset":
    """Reads one split, columns and labels checked.

    Args:
        data: a folder with `TASK/SPLIT-*.parquet` or with the original `TITLE/*.tsv`, or a Hub id such as
            `nyu-mll/glue`.
        labelled: whether every row must have a label. Those of test splits are -1.

    Returns:
        The rows, with the task's text columns, `label` (-1 where there is none) and, where the files have it, `idx`.

    Raises:
        InvalidInput: no such split or data, a file that cannot be read, or rows that are not the task's (see `task_rows`).
    """
    if split not in task.sizes:
        other = f"; train on {task.trained_as}, whose models answer it" if split == "train" and task.trained_as else ""
        raise InvalidInput(
            f"{task.name} has the splits {', '.join(task.sizes)}", got=split, repair=f"choose one of them{other}"
        )
    table = _read_folder(Path(data), task, split) if Path(data).is_dir() else _read_hub(data, task, split)
    return task_rows(table, task, where=f"{data} {task.name} {split}", labelled=labelled)


def data_parent(data: str, task: Task) -> Parent:
    """How a record names the data of a task: the hash of its files, or the Hub id."""
    import hashlib

    root = Path(data)
    files = _parquet_files(root, task, "*.parquet")
    files = files or [path for path in (tsv_file(root, task, split) for split in task.sizes) if path is not None]
    if not files:
        return {"path": f"{data} {task.name}", "sha256": "hub"}
    lines = [f"{path.name} {file_sha256(path)}" for path in files]
    return {"path": str(files[0].parent), "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest()}


def _parquet_files(root: Path, task: Task, pattern: str) -> list[Path]:
    """The files of a task that have such a name.

    Raises:
        InvalidInput: one of them is a directory, a pipe or a device.
    """
    files = sorted((root / task.name).glob(pattern))
    for file in files:
        check_input_file(file, what=f"{task.name}/{pattern} of --data", repair="remove it, or point --data elsewhere")
    return files


def _read_folder(root: Path, task: Task, split: str) -> "pyarrow.Table":
    import pyarrow
    import pyarrow.parquet

    # By name, never by load_dataset(folder): without a README it would merge MNLI's matched and mismatched halves.
    files = _parquet_files(root, task, f"{split}-*.parquet") or _parquet_files(root, task, f"{split}.parquet")
    if not files:
        original = tsv_file(root, task, split)
        if original is not None:
            return read_tsv(original, task, split)
        found = sorted(path.relative_to(root).as_posix() for path in [*root.glob("*/*.parquet"), *root.glob("*/*.tsv")])
        raise InvalidInput(
            f"--data must hold {task.name}/{split}-*.parquet, or GLUE's own TSV files",
            got=f"{root} with {', '.join(found[:12]) or 'no TASK/SPLIT-*.parquet at all'}",
            repair="point --data at the folder that holds one folder a task, or leave out that --task",
        )
    tables = []
    for file in files:
        try:
            # What other libraries noted in the schema is left out: it may be of any form.
            tables.append(pyarrow.parquet.ParquetFile(file).read().replace_schema_metadata(None))
        except (pyarrow.ArrowException, OSError) as error:
            raise InvalidInput(
                "--data must hold readable parquet files", got=f"{file} ({first_line(error)})", repair="download it again"
            ) from None  # fmt: skip
    try:
        return pyarrow.concat_tables(tables)
    except pyarrow.ArrowException as error:
        raise InvalidInput(
            "the files of a split must have the same columns",
            got=f"{len(files)} files of {task.name} {split} in {root} ({first_line(error)})",
            repair="write them alike",
        ) from None


def _read_hub(data: str, task: Task, split: str) -> "pyarrow.Table":
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    if not _HUB_ID.fullmatch(data):
        raise InvalidInput(
            "--data must be a folder or a Hub id", got=repr(data), repair="check the path, or use nyu-mll/glue"
        )
    try:
        return load_dataset(data, task.name, split=split).data.table
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise InvalidInput(
            "--data must be a folder here or a data set on the Hub in the layout of nyu-mll/glue",
            got=f"{data!r} ({type(error).__name__}: {first_line(error)})",
            repair="check the path, or the network if you mean the Hub",
        ) from None


__all__ = ["data_parent", "load_split"]
