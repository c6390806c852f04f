"""Reading GLUE from a local folder in the layout of nyu-mll/glue, from the original TSV distribution, or from the Hub."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from ..files import file_sha256
from ..records import Parent
from .tasks import Task
from .tsv import read_tsv, tsv_file

if TYPE_CHECKING:
    from datasets import Dataset

_UNLABELLED = "the diagnostics' labels are in diagnostic-full.tsv alone: put it into the folder diagnostic of --data"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def load_split(data: str, task: Task, split: str, *, labelled: bool = True) -> "Dataset":
    """Reads one split, columns and labels checked.

    Args:
        data: a folder with `TASK/SPLIT-*.parquet` or with the original `TITLE/*.tsv`, or a Hub id such as
            `nyu-mll/glue`.
        labelled: whether every row must have a label. Those of test splits are -1.

    Returns:
        The rows, with the task's text columns, `label` and, where the files have it, `idx`.

    Raises:
        InvalidInput: no such split or data, a missing column, a label outside the task's, or no rows.
    """
    if split not in task.sizes:
        other = f"; train on {task.trained_as}, whose models answer it" if split == "train" and task.trained_as else ""
        raise InvalidInput(
            f"{task.name} has the splits {', '.join(task.sizes)}", got=split, repair=f"choose one of them{other}"
        )
    rows = _read_folder(Path(data), task, split) if Path(data).is_dir() else _read_hub(data, task, split)
    _check(rows, task, where=f"{data} {task.name} {split}", labelled=labelled)
    return rows


def data_parent(data: str, task: Task) -> Parent:
    """How a record names the data of a task: the hash of its files, or the Hub id."""
    import hashlib

    root = Path(data)
    files = [*sorted((root / task.name).glob("*.parquet"))]
    files = files or [path for path in (tsv_file(root, task, split) for split in task.sizes) if path is not None]
    if not files:
        return {"path": f"{data} {task.name}", "sha256": "hub"}
    lines = [f"{path.name} {file_sha256(path)}" for path in files]
    return {"path": str(files[0].parent), "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest()}


def _read_folder(root: Path, task: Task, split: str) -> "Dataset":
    import pyarrow
    import pyarrow.parquet
    from datasets import Dataset

    # By name, never by load_dataset(folder): without a README it would merge MNLI's matched and mismatched halves.
    files = sorted((root / task.name).glob(f"{split}-*.parquet")) or sorted((root / task.name).glob(f"{split}.parquet"))
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
    try:
        table = pyarrow.concat_tables([pyarrow.parquet.read_table(file) for file in files])
    except pyarrow.ArrowException as error:
        raise InvalidInput(
            "--data must hold readable parquet files", got=f"{files[0]} ({error})", repair="download it again"
        ) from None
    return Dataset(table)


def _read_hub(data: str, task: Task, split: str) -> "Dataset":
    from datasets import load_dataset

    if not _HUB_ID.fullmatch(data):
        raise InvalidInput(
            "--data must be a folder or a Hub id", got=repr(data), repair="check the path, or use nyu-mll/glue"
        )
    try:
        return load_dataset(data, task.name, split=split)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            "--data must be a folder here or a data set on the Hub in the layout of nyu-mll/glue",
            got=f"{data!r} ({type(error).__name__}: {error})",
            repair="check the path, or the network if you mean the Hub",
        ) from None


def _check(rows: "Dataset", task: Task, *, where: str, labelled: bool) -> None:
    needed = (*task.columns, "label") if labelled else task.columns
    missing = [column for column in needed if column not in rows.column_names]
    if missing:
        raise InvalidInput(
            f"{task.name} needs the columns {', '.join(needed)}",
            got=f"{', '.join(rows.column_names)} in {where}",
            repair=f"rename or add {', '.join(missing)}",
        )
    if len(rows) == 0:
        raise InvalidInput("a split must have rows", got=f"none in {where}", repair="check the file")
    empty = {column: rows.data.column(column).null_count for column in needed}
    if any(empty.values()):
        column = max(empty, key=empty.__getitem__)
        raise InvalidInput(
            f"column {column!r} must have a value in every row",
            got=f"{empty[column]} empty of {len(rows)} in {where}",
            repair="drop or repair those rows",
        )
    if not labelled:
        return
    labels: list[Any] = list(rows["label"])
    if task.is_regression:
        wrong = [label for label in labels if not 0 <= label <= 5]
        rule = f"{task.name} needs labels from 0 to 5"
    else:
        known = range(len(task.labels))
        wrong = [label for label in labels if label not in known]
        names = ", ".join(f"{i} {name}" for i, name in enumerate(task.labels))
        rule = f"{task.name} needs the label ids {names}"
    if wrong:
        raise InvalidInput(
            rule,
            got=f"{wrong[0]!r} and {len(wrong) - 1} more in {where}",
            repair=_UNLABELLED if task.trained_as else "use a labelled split, or map the labels",
        )


__all__ = ["data_parent", "load_split"]
