"""The original TSV distribution of GLUE: a folder a task, tab-separated, quotes are ordinary characters."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, first_line, shown
from .rows import UNLABELLED
from .tasks import Task

if TYPE_CHECKING:
    import pyarrow

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
    found = (root / folder / name for name in names for folder in folders)
    return next((path for path in found if path.is_file()), None)


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


__all__ = ["read_tsv", "tsv_file"]
