"""Data of one's own: the task that is found in them, and their rows."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, shown, suggest
from ..records.files import check_input_file, data_hash, file_sha256
from ..records.record import Parent
from .answer_spans import hides_answers, read_answers, read_passages
from .column_roles import is_list, is_text
from .data_settings import DataSettings
from .dataset_tables import is_dataset_directory, is_on_hub, read_dataset_directory, read_hub
from .division import divide_rows, share_of
from .glue import TASKS
from .label_kinds import is_missing
from .labels import read_labels, unlabelled
from .roles_and_labels import find_roles_and_labels
from .row_texts import check_utf8, with_task_column
from .soft_labels import SOFT_LABELS, read_soft_labels
from .split_files import all_files, split_sources
from .split_names import by_split_column
from .tables import TEXT_SUFFIX, read_files, read_lines
from .tagged_words import read_tags, read_words
from .task import HeldOut, Task, measures_of
from .text_files import bare

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset

# Small sets are seen more often, and so are many classes, each of which has few rows.
_EPOCHS = ((3_000, 10.0), (10_000, 4.0), (50_000, 3.0))
_FEWEST_EPOCHS, _MOST_EPOCHS = 2.0, 10.0
_MANY_CLASSES = 20
_SMALL_BATCH, _BATCH, _SMALL_SET = 16, 32, 5_000
# Longest input of a question with its context, as Devlin et al. 2019 have it for SQuAD.
_LONG = 384
# Schemes of tags in words; those that are left out are called as they are.
_SCHEMES = {"IOBES": "BIOES", "runs": "runs of one tag being an entity", "plain": "without entities"}


def find_task(data: str, settings: DataSettings | None = None, *, name: str | None = None) -> Task:
    """The task that data of one's own are of: texts, labels and their kind, as the training rows have them.

    Args:
        data: file or folder of csv, tsv, json, jsonl or parquet, a directory that `datasets` wrote, or `owner/name:configuration` on the Hub.
        settings: what is said of the columns; the rest is found where one reading is possible.
        name: what the task is called; by default as the file or folder.

    Raises:
        InvalidInput: no rows, or columns or labels that nothing can be learned from.
    """
    settings = settings or DataSettings()
    tables = _tables(data, settings.validation)
    if "train" not in tables:
        raise InvalidInput(
            "data must have training rows", got=f"{', '.join(tables)} in {data}", repair="add train.csv, or name a file"
        )
    table, where = tables["train"], f"{data} train"
    _check_rows(table, where=where)
    columns, found = find_roles_and_labels(table, settings, where=where)
    task = Task(
        name=name or _name(data),
        columns=columns.texts,
        label_columns=columns.labels,
        labels=found.labels,
        kind=found.kind,
        bounds=found.bounds,
        tag_scheme=found.tag_scheme,
        may_lack_answer=found.may_lack_answer,
        metrics=measures_of(found.kind, found.tag_scheme, may_lack_answer=found.may_lack_answer),
        epochs=_epochs(table.num_rows, 0 if found.kind == "tags" else len(found.labels)),
        batch_size=_SMALL_BATCH if table.num_rows < _SMALL_SET else _BATCH,
        max_length=_LONG if found.kind == "spans" else Task.max_length,
        validation_file=settings.validation,
        held_out=None if "validation" in tables else _held_out(data, table.num_rows),
    ).measured_by(settings.measure)
    return task


def in_words(data: str, task: Task, *, most: int = 5) -> str:
    """How data are read, in a sentence."""
    texts = " and ".join(repr(name) for name in task.columns)
    labels = ", ".join(repr(name) for name in task.label_columns[:most])
    names = ", ".join(task.labels[:most]) + (", …" if len(task.labels) > most else "")
    low, high = task.bounds or (0.0, 0.0)
    kind = {
        "classes": f"one of {len(task.labels)} classes ({names})",
        "labels": f"any of {len(task.labels)} labels ({names})",
        "number": f"a number from {low:g} to {high:g}",
        "tags": f"a tag for each word, one of {len(task.labels)} ({names}), {_SCHEMES.get(task.tag_scheme or '', task.tag_scheme)}",
        "spans": f"a span of {task.columns[-1]!r}, or none"
        if task.may_lack_answer
        else f"a span of {task.columns[-1]!r}",
    }[task.kind]
    held = task.held_out
    together = ["all of a context"] if task.has_spans else []
    together += ["near-copies"] if held is not None and held.near_copies else []
    way = [
        *([] if task.has_spans else ["stratified"]),
        *([f"{' and '.join(together)} on one side"] if together else []),
    ]
    validation = (
        ""
        if held is None or not holds_out(data, task)
        else f"; {100 * held.share:.0f} % of the rows are held out for validation (seed {held.seed}, {', '.join(way)})"
    )
    return f"{task.name}: text in {texts}, label in {labels}: {kind}{validation}{_divided(data)}"


def _divided(data: str) -> str:
    """How many rows of a single file are of each split, where a column of it says so."""
    if is_on_hub(data) or is_dataset_directory(data) or set(split_sources(data)) != {"train"}:
        return ""
    rows = {split: table.num_rows for split, table in _tables(data, None).items()}
    return (
        f"; a column divides its rows: {', '.join(f'{n} {split}' for split, n in rows.items())}"
        if len(rows) > 1
        else ""
    )


def for_training(task: Task, data: str) -> Task:
    """A task that a model carries, for data that it is to be trained on: those without a validation split give one up, the same rows as
    before where they did already."""
    if task.benchmark or "validation" in (tables := _tables(data, task.validation_file)) or holds_out(data, task):
        return task
    return replace(task, held_out=_held_out(data, tables["train"].num_rows))


def read_as(task: Task, settings: DataSettings) -> Task:
    """A task that a model carries, with the columns and the measure that somebody names."""
    columns = [name for name in (settings.text_column, settings.text_pair_column) if name is not None]
    if task.has_spans:  # a question has its context too where only its own column is named
        columns += task.columns[len(columns) :]
    if settings.kind is not None and settings.kind != task.kind:
        raise InvalidInput(
            "--kind must be that of the model's task", got=f"{settings.kind}, and {task.name} has {task.kind}", repair="leave it out, or train a model for it"
        )  # fmt: skip
    if settings.label_column and len(settings.label_column) != len(task.label_columns):
        raise InvalidInput(
            f"--label-column must name as many columns as the task has ({len(task.label_columns)})",
            got=", ".join(settings.label_column),
            repair=f"name {' and '.join(task.label_columns[:5])} as they are called here",
        )
    return replace(
        task,
        columns=tuple(columns) or task.columns,
        label_columns=settings.label_column or task.label_columns,
        validation_file=settings.validation or task.validation_file,
    ).measured_by(settings.measure)


def own_split(data: str, task: Task, split: str, *, labelled: bool = True, soft_labels: str | None = None) -> "Dataset":
    """The rows of one split: the task's text columns, and `label`; with the column of a teacher's answers also their logits, as
    `soft_labels`.

    Data without a validation split give the part that the task holds out, where they are the data that it was found in; any others
    are whole.

    Raises:
        InvalidInput: no such split, or rows that are not the task's.
    """
    tables = _tables(data, task.validation_file)
    table = tables.get(split)
    where = f"{data} {split}"
    if split == "validation" and "validation" not in tables and (set(tables) == {"train"} or holds_out(data, task)):
        table = tables["train"]
    if table is None:
        raise InvalidInput(
            "a split must be one of the data's", got=f"{split}, and {data} has {', '.join(tables)}", repair="add a file for it, or use another split"
        )  # fmt: skip
    _check_rows(table, where=where)
    _check_columns(table, task, where=where, labelled=labelled)
    rows = _rows(table, task, where=where, labelled=labelled)
    if soft_labels is not None:
        rows = rows.add_column(SOFT_LABELS, read_soft_labels(table, soft_labels, task, where=where))
    is_divided = split != "test" and "validation" not in tables and holds_out(data, task)
    return _part(rows, data, task, split) if is_divided else rows


def more_texts(data: str, task: Task, *, soft_labels: str | None = None) -> "Dataset":
    """The rows of a file or folder of unlabelled texts: the task's text columns (or `text` for the only one), a `label` that says that
    there is none, and `soft_labels` where they are read and there. A text file has a text a line.

    Raises:
        InvalidInput: no rows, or columns that are not the task's.
    """
    path = Path(data)
    if path.suffix.lower() == TEXT_SUFFIX and not path.is_dir():
        table = read_lines(path, task.columns)
    else:
        table = read_files(all_files(path))
    _check_rows(table, where=data)
    table = with_task_column(table, task)
    _check_columns(table, task, where=data, labelled=False)
    rows = _rows(table.select([*task.columns]), task, where=data, labelled=False)
    if soft_labels is None or soft_labels not in table.column_names:
        return rows
    return rows.add_column(SOFT_LABELS, read_soft_labels(table, soft_labels, task, where=data))


def has_column(data: str, task: Task, column: str) -> bool:
    """Whether the training rows have a column."""
    return column in _tables(data, task.validation_file)["train"].column_names


def own_splits(data: str, task: Task) -> list[str]:
    """The splits whose rows have labels, the validation split first."""
    tables = _tables(data, task.validation_file)
    labelled = [
        split
        for split, table in tables.items()
        if set(task.label_columns) <= set(table.column_names) and not (split == "test" and _hides_labels(table, task))
    ]
    if "validation" not in tables and "train" in labelled and (set(tables) == {"train"} or holds_out(data, task)):
        labelled.append("validation")
    return [split for split in ("validation", "test") if split in labelled]


def as_written(rows: "Dataset", task: Task) -> "Dataset":
    """Rows of a task with the columns and labels that its data have, so that they can be read as such again."""
    labels = rows["label"][:]
    (first, *others) = task.label_columns
    if task.is_regression:
        written: dict[str, list[Any]] = {first: labels}
    elif others:
        written = {name: [int(row[i]) for row in labels] for i, name in enumerate(task.label_columns)}
    elif task.has_several_labels:
        written = {first: [[name for name, held in zip(task.labels, row, strict=True) if held] for row in labels]}
    elif task.has_spans:
        written = {first: labels}
    elif task.has_tags:
        written = {first: [[task.labels[i] for i in row] for row in labels]}
    else:
        written = {first: [task.labels[i] for i in labels]}
    bare = rows.remove_columns("label")
    for name, values in written.items():
        bare = bare.add_column(name, values)
    return bare


def own_parent(data: str, validation: str | None = None) -> Parent:
    """How a record names data of one's own: the hash of their files, or the Hub id."""
    if not Path(data).exists():
        return {"path": data, "sha256": "hub"}
    files = [file for of_split in _files(data).values() for file in of_split]
    return {"path": data, "sha256": _hash([*files, *([] if validation is None else [Path(validation)])])}


def texts_parent(data: str) -> Parent:
    """How a record names unlabelled texts: the hash of their files."""
    return {"path": data, "sha256": _hash(all_files(Path(data)))}


def _held_out(data: str, rows: int) -> HeldOut:
    return HeldOut(of=_training_hash(data), share=share_of(rows), near_copies=True)


def _training_hash(data: str) -> str:
    """What tells the training rows of data from those of others."""
    return _hash(_files(data)["train"]) if Path(data).exists() else data


def holds_out(data: str, task: Task) -> bool:
    """Whether the task's validation split is a part of these data's training rows."""
    held = task.held_out
    return held is not None and (is_on_hub(data) or "train" in _files(data)) and _training_hash(data) == held.of


def _files(data: str) -> dict[str, list[Path]]:
    if is_dataset_directory(data):
        return {"train": sorted(file for file in Path(data).rglob("*") if file.is_file())}
    return split_sources(data)


def _hash(files: list[Path]) -> str:
    return data_hash((file.name, file_sha256(file)) for file in files)


def _name(data: str) -> str:
    """A name for files and tables: that of the file or folder."""
    stem = re.sub(r"[^\w.-]+", "-", bare(Path(data.partition(":")[0]).resolve()).stem).strip(".-") or "task"
    return f"{stem}-own" if stem in TASKS else stem


def _epochs(rows: int, labels: int) -> float:
    epochs = next((epochs for most, epochs in _EPOCHS if rows <= most), _FEWEST_EPOCHS)
    return min(_MOST_EPOCHS, epochs * (2 if labels > _MANY_CLASSES else 1))


def _tables(data: str, validation: str | None) -> "dict[str, pyarrow.Table]":
    """Split -> table, as it is written."""
    if is_on_hub(data):
        tables = read_hub(data)
    elif Path(data).is_dir() and is_dataset_directory(data):
        tables = read_dataset_directory(data)
    else:
        tables = {split: read_files(files) for split, files in split_sources(data).items()}
        tables = by_split_column(tables["train"]) if set(tables) == {"train"} else tables
    if validation is not None:
        check_input_file(Path(validation), what="--validation")
        tables["validation"] = read_files([Path(validation)])
    return tables


def _check_rows(table: "pyarrow.Table", *, where: str) -> None:
    if table.num_rows == 0:
        raise InvalidInput("a split must have rows", got=f"none in {where}", repair="add rows, or remove that file")


def _check_columns(table: "pyarrow.Table", task: Task, *, where: str, labelled: bool) -> None:
    names = table.column_names
    needed = (*task.columns, *(task.label_columns if labelled else ()))
    for name in needed:
        if names.count(name) > 1:
            raise InvalidInput(
                "a column must be there once", got=f"{name!r} {names.count(name)} times in {where}", repair="drop one"
            )
        if name not in names:
            option = "--text-column" if name in task.columns else "--label-column"
            raise InvalidInput(
                f"{task.name} needs the columns {', '.join(needed[:12])}",
                got=f"{', '.join(names) or 'no columns'} in {where}",
                repair=f"{suggest(name, names)} for {name!r}: name it with {option}",
            )


def _hides_labels(table: "pyarrow.Table", task: Task) -> bool:
    """Whether no row has a label: those of a test split may be kept elsewhere."""
    if task.has_spans:
        return hides_answers(table, task)
    return all(is_missing(value) for name in task.label_columns for value in table.column(name).to_pylist())


def _rows(table: "pyarrow.Table", task: Task, *, where: str, labelled: bool) -> "Dataset":
    from datasets import ClassLabel, Dataset, Features, List, Sequence, Value

    reads: dict[str, Any] = {"tags": read_words, "spans": read_passages}
    read, text = reads.get(task.kind, _texts), List(Value("string")) if task.has_tags else Value("string")
    columns: dict[str, list[Any]] = {name: read(table, name, where=where) for name in task.columns}
    has_labels = set(task.label_columns) <= set(table.column_names)
    is_whole = has_labels and not any(table.column(name).null_count for name in task.label_columns)
    keeps = labelled or (is_whole and not _hides_labels(table, task))
    if not keeps:
        columns["label"] = unlabelled(task, table.num_rows)
    elif task.has_tags:
        columns["label"] = read_tags(table, columns[task.columns[0]], task, where=where)
    elif task.has_spans:
        columns["label"] = read_answers(table, columns[task.columns[-1]], task, where=where)
    else:
        columns["label"] = read_labels(table, task, where=where)
    kind: Any = Value("float32") if task.is_regression else ClassLabel(names=list(task.labels))
    if task.has_several_labels:
        kind = Sequence(Value("float32"), length=task.num_labels)
    if task.has_tags:
        kind = List(kind)
    if task.has_spans:
        kind = {"text": List(Value("string")), "answer_start": List(Value("int64"))}
    features = Features({**dict.fromkeys(task.columns, text), "label": kind})
    return Dataset.from_dict(columns, features=features)


def _texts(table: "pyarrow.Table", name: str, *, where: str) -> list[str]:
    """A text column's strings. Lists of words are put together with blanks."""
    column = table.column(name)
    values = column.to_pylist()
    missing = [place for place, value in enumerate(values) if value is None]
    if missing:
        raise InvalidInput(
            f"column {name!r} must have a text in every row",
            got=f"{len(missing)} without one of {len(values)} in {where}, first in row {missing[0] + 1}",
            repair="drop those rows, or write an empty text",
        )
    if is_list(column) and all(isinstance(word, str) for words in values for word in words):
        return [" ".join(words) for words in values]
    if not is_text(column):
        raise InvalidInput(
            f"column {name!r} must hold text", got=f"{shown(values[0])} in {where}", repair="choose another --text-column, or write that column as strings"
        )  # fmt: skip
    check_utf8(values, name, where=where)
    return values


def _part(rows: "Dataset", data: str, task: Task, split: str) -> "Dataset":
    """The training rows without those held out, or these."""
    way = task.held_out or _held_out(data, len(rows))
    kept, held = divide_rows(rows, task, share=way.share, seed=way.seed, near_copies=way.near_copies)
    if not held:
        raise InvalidInput(
            "data must have rows enough to hold some out for validation, at least three of a class",
            got=f"{len(rows)} rows in {data}",
            repair="add --validation FILE, or more rows of each class",
        )
    return rows.select(held if split == "validation" else kept)
