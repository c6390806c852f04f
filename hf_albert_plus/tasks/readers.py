"""Readers of GLUE: a local folder in the layout of nyu-mll/glue, the original TSV distribution, or the Hub.

The TSV distribution has a folder a task. Its columns are separated by tabs, and quotes are ordinary characters.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, first_line, shown
from ..hub_connection import check_data
from ..records.files import check_input_file, data_hash, file_sha256
from ..records.record import Parent
from .rows import UNLABELLED, task_rows
from .task import Task

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def glue_split(data: str, task: Task, split: str, *, labelled: bool = True) -> "Dataset":
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


def glue_parent(data: str, task: Task) -> Parent:
    """How a record names the data of a task: the hash of its files, or the Hub id."""
    root = Path(data)
    files = _parquet_files(root, task, "*.parquet")
    files = files or [path for path in (tsv_file(root, task, split) for split in task.sizes) if path is not None]
    if not files:
        return {"path": f"{data} {task.name}", "sha256": "hub"}
    sha256 = data_hash((path.name, file_sha256(path)) for path in files)
    return {"path": str(files[0].parent), "sha256": sha256}


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
        others = sorted(
            path.relative_to(root).as_posix() for path in [*root.glob("*/*.parquet"), *root.glob("*/*.tsv")]
        )
        raise InvalidInput(
            f"--data must hold {task.name}/{split}-*.parquet, or GLUE's own TSV files",
            got=f"{root} with {', '.join(others[:12]) or 'no TASK/SPLIT-*.parquet at all'}",
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
    check_data(data)
    try:
        return load_dataset(data, task.name, split=split).data.table
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise InvalidInput(
            "--data must be a folder here or a data set on the Hub in the layout of nyu-mll/glue",
            got=f"{data!r} ({type(error).__name__}: {first_line(error)})",
            repair="check the path, or the network if you mean the Hub",
        ) from None


_FILES = {
    "train": ("train.tsv",),
    "validation": ("dev.tsv",),
    "validation_matched": ("dev_matched.tsv",),
    "validation_mismatched": ("dev_mismatched.tsv",),
    "test": ("test.tsv",),
    "test_matched": ("test_matched.tsv",),
    "test_mismatched": ("test_mismatched.tsv",),
}


@dataclass(frozen=True)
class _Layout:
    """Columns of one file.

    Attributes:
        texts: their names, in the order of the task's columns.
        label: the label's name, where the file has one.
        names: names of the columns where the file has no header.
    """

    texts: tuple[str, ...]
    label: str = "label"
    names: tuple[str, ...] | None = None


_LAYOUTS = {
    "cola": _Layout(("sentence",)),
    "sst2": _Layout(("sentence",)),
    "mrpc": _Layout(("#1 String", "#2 String"), label="Quality"),
    "qqp": _Layout(("question1", "question2"), label="is_duplicate"),
    "stsb": _Layout(("sentence1", "sentence2"), label="score"),
    "mnli": _Layout(("sentence1", "sentence2"), label="gold_label"),
    "qnli": _Layout(("question", "sentence")),
    "rte": _Layout(("sentence1", "sentence2")),
    "wnli": _Layout(("sentence1", "sentence2")),
    "ax": _Layout(("sentence1", "sentence2")),
}
_COLA_LABELLED = _Layout(("sentence",), names=("source", "label", "judgement", "sentence"))
# The diagnostics' labels were published later, in a file of their own.
_DIAGNOSTICS = {
    "diagnostic-full.tsv": _Layout(("Premise", "Hypothesis"), label="Label"),
    "diagnostic.tsv": _LAYOUTS["ax"],
    "AX.tsv": _LAYOUTS["ax"],
}


def tsv_file(root: Path, task: Task, split: str) -> Path | None:
    """The file of a split, if the folder has it."""
    folders, names = ((task.title,), _FILES[split]) if task.name != "ax" else (("diagnostic", "AX"), _DIAGNOSTICS)
    places = (root / folder / name for name in names for folder in folders)
    return next((path for path in places if path.is_file()), None)


def read_tsv(path: Path, task: Task, split: str) -> "pyarrow.Table":
    """Rows with the columns of nyu-mll/glue: texts, `label` (-1 where the file has none) and `idx`.

    Raises:
        InvalidInput: a column is missing, a row outside the training split is cut short, or a label or an index is none.
    """
    import pyarrow

    layout = _COLA_LABELLED if task.name == "cola" and split != "test" else _LAYOUTS[task.name]
    layout = _DIAGNOSTICS.get(path.name, layout) if task.name == "ax" else layout
    columns: dict[str, list[Any]] = {name: [] for name in (*task.columns, "label", "idx")}
    for number, row in enumerate(_rows(path, layout)):
        texts = [row.get(name) for name in layout.texts]
        label = row.get(layout.label, UNLABELLED)
        if label is None or None in texts:
            # Some lines of QQP's training file were cut short when GLUE was made; nobody trains on them.
            if split == "train":
                continue
            raise InvalidInput(
                f"every line of {path.name} must have all its columns",
                got=f"line {number + 2} with {sum(value is not None for value in row.values())} of {len(row)}",
                repair="download it again",
            )
        for name, text in zip(task.columns, texts, strict=True):
            columns[name].append(text)
        columns["label"].append(_label(label, task, where=f"line {number + 2} of {path}"))
        columns["idx"].append(_index(row.get("index"), number, where=f"line {number + 2} of {path}"))
    types = {"label": pyarrow.float32() if task.is_regression else pyarrow.int64(), "idx": pyarrow.int64()}
    return pyarrow.table(
        {name: pyarrow.array(values, types.get(name, pyarrow.string())) for name, values in columns.items()}
    )


def _rows(path: Path, layout: _Layout) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(1 << 24)
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as lines:
            reader = csv.DictReader(
                (line.rstrip("\r\n") for line in lines), fieldnames=layout.names, delimiter="\t", quoting=csv.QUOTE_NONE
            )
            names = list(reader.fieldnames or ())
            if any(names.count(name) != 1 for name in layout.texts):
                raise InvalidInput(
                    f"{path} must have the columns {', '.join(layout.texts)}",
                    got=", ".join(names)[:200] or "an empty file",
                    repair="download it again",
                )
            yield from reader
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(
            "GLUE's own files must be UTF-8 with tabs between columns", got=f"{path} ({first_line(error)})", repair="download it again"
        ) from None  # fmt: skip


def _index(text: str | None, number: int, *, where: str) -> int:
    """A row's own number; its place where the file has none."""
    if text is None:
        return number
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidInput(
            "an index must be a whole number", got=f"{shown(text)} in {where}", repair="download it again"
        )
    return int(text)


def _label(text: Any, task: Task, *, where: str) -> float | int:
    """A label by its name or its number."""
    if text in task.labels:
        return task.labels.index(text)
    try:
        value = float(text) if task.is_regression else int(text)
    except ValueError:
        value = None
    if value is None or abs(value) >= 1 << 31:
        raise InvalidInput(
            f"a label of {task.name} must be {', '.join(task.labels) or 'a number'}",
            got=f"{shown(text)} in {where}",
            repair="download it again",
        )
    return value
