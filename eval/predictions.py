"""Prediction files in the benchmark's form (`index<TAB>prediction`), and the zip that its server takes."""

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy

from hf_albert_plus.errors import InvalidInput, first_line, shown
from hf_albert_plus.eval.span_scores import as_objects
from hf_albert_plus.eval.tag_scores import padded_tags, unpadded
from hf_albert_plus.records.files import check_input_file, write_text, writing
from hf_albert_plus.tasks.glue import TASKS
from hf_albert_plus.tasks.most_likely import json_value
from hf_albert_plus.tasks.task import Task

_HEADER = ["index", "prediction"]
_FORM = "write it as GLUE's submissions are: index<TAB>prediction"
# The server reads names where the task's files have names, and numbers where they have numbers.
_NAMED = {"mnli", "qnli", "rte", "ax"}


def prediction_text(predicted: numpy.ndarray, task: Task, *, index: list[int] | None = None) -> str:
    """A prediction file's text.

    Args:
        predicted: label ids, or values for regression, `[examples]`; STS-B's are cut to its range from 0 to 5. Of several labels and of
            tags, as metrics take them; of spans the text of each answer, empty for none.
        index: the rows' own numbers; their positions by default.
    """
    lines = ["\t".join(_HEADER)]
    for number, value in zip(index or range(len(predicted)), predicted, strict=True):
        if task.has_several_labels:
            written: object = json.dumps([task.labels[i] for i in numpy.flatnonzero(value)], ensure_ascii=False)
        elif task.has_spans:
            written = json.dumps(value, ensure_ascii=False)
        elif task.has_tags:
            written = json.dumps([task.labels[i] for i in value if i >= 0], ensure_ascii=False)
        elif task.is_regression:
            written = f"{min(max(float(value), 0.0), 5.0):.3f}" if task.benchmark else f"{float(value):.6g}"
        elif not task.benchmark:
            written = task.labels[int(value)]
        else:
            written = task.labels[int(value)] if task.name in _NAMED else int(value)
        lines.append(f"{number}\t{written}")
    return "".join(f"{line}\n" for line in lines)


def write_predictions(path: Path, predicted: numpy.ndarray, task: Task) -> None:
    write_text(path, prediction_text(predicted, task))


def read_predictions(path: Path, task: Task) -> numpy.ndarray:
    """Label ids, or values for regression, in the order of their index, `[examples]`.

    Raises:
        InvalidInput: another header, an index that is missing or twice there, or a prediction that is no label.
    """
    check_input_file(path, what="--predictions")
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(
            "a prediction file must be UTF-8 with tabs between columns", got=f"{path} ({first_line(error)})", repair=_FORM
        ) from None  # fmt: skip
    if not rows or rows[0] != _HEADER or any(len(row) != 2 for row in rows):
        wrong = next((row for row in rows if len(row) != 2), rows[0] if rows else [])
        raise InvalidInput(
            "a prediction file must have the columns index and prediction, with tabs between",
            got=f"{shown(wrong)} in {path}",
            repair=_FORM,
        )
    values: dict[int, Any] = {}
    for number, (index, text) in enumerate(rows[1:], start=2):
        where = f"line {number} of {path}"
        is_number = index.isascii() and index.isdecimal() and len(index) <= 18
        if not is_number or int(index) in values:
            raise InvalidInput(
                "an index must be a number, each once", got=f"{shown(index)} in {where}", repair="mend it"
            )
        values[int(index)] = _parse(text, task, where=where)
    if sorted(values) != list(range(len(values))):
        missing = next(number for number in range(len(values)) if number not in values)
        raise InvalidInput(
            "a prediction file must answer the rows 0, 1, 2 and so on",
            got=f"none for {missing} in {path}",
            repair="add it",
        )
    answers = [values[number] for number in range(len(values))]
    return from_numbers(answers, task) if task.answers_parts else numpy.array(answers)


def _parse(text: str, task: Task, *, where: str) -> Any:
    if task.has_several_labels:
        given = _parse_labels(text, task, where=where)
        return [int(name in given) for name in task.labels]
    if task.has_tags:
        return [task.labels.index(name) for name in _parse_labels(text, task, where=where)]
    if task.has_spans:
        return _parse_answer(text, task, where=where)
    if text in task.labels:
        return task.labels.index(text)
    try:
        value = float(text) if task.is_regression else int(text)
    except ValueError:
        value = numpy.nan
    if not numpy.isfinite(value) or (not task.is_regression and value not in range(task.num_labels)):
        names = ", ".join(f"{i} {name}" for i, name in enumerate(task.labels)) or "a finite number"
        raise InvalidInput(
            f"a prediction of {task.name} must be {names}", got=f"{shown(text)} in {where}", repair="mend it"
        )
    return value


def _parse_answer(text: str, task: Task, *, where: str) -> str:
    """The text of an answer, in JSON."""
    answer = json_value(text)
    if not isinstance(answer, str) or answer == text:
        raise InvalidInput(
            f'a prediction of {task.name} must be the text of an answer in JSON, as "in Bremen", or "" for none',
            got=f"{shown(text)} in {where}",
            repair="mend it",
        )
    return answer


def _parse_labels(text: str, task: Task, *, where: str) -> list[str]:
    """A list of names."""
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(name in task.labels for name in names):
        raise InvalidInput(
            f"a prediction of {task.name} must be a list of its labels",
            got=f"{shown(text)} in {where}",
            repair="mend it",
        )
    return names


def submission_files() -> dict[str, Task]:
    """The names, without `.tsv`, of all files that the server asks for, and their tasks."""
    return {stem: task for task in TASKS.values() for stem in task.submission}


def write_submission(path: Path, files: dict[str, str]) -> list[str]:
    """Writes `STEM.tsv` files into a zip, whole or not at all.

    Returns:
        The names of files that the server asks for and that are not among them.
    """
    with writing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for stem, text in files.items():
            # A fixed date: the same predictions give the same file.
            archive.writestr(zipfile.ZipInfo(f"{stem}.tsv", date_time=(1980, 1, 1, 0, 0, 0)), text)
    return [stem for stem in submission_files() if stem not in files]


def from_numbers(values: list[Any], task: Task) -> numpy.ndarray:
    """What `as_numbers` wrote, as metrics take it; of tags also what a split has as labels."""
    if task.has_spans:
        return as_objects(values)
    if task.has_tags:
        return padded_tags(values)
    if not task.has_several_labels:
        return numpy.asarray(values)
    rows = numpy.zeros((len(values), task.num_labels), dtype=int)
    for row, ids in zip(rows, values, strict=True):
        row[ids] = 1
    return rows


def as_numbers(predicted: numpy.ndarray, task: Task) -> list[Any]:
    """Predictions or labels as a document of scores holds them: label ids, values to 6 digits, or the ids of each row's labels or tags; of spans
    texts, and lists of those of the labels."""
    if task.has_spans:
        return list(predicted)
    if task.has_tags:
        return unpadded(predicted)
    if task.has_several_labels:
        return [numpy.flatnonzero(row).tolist() for row in predicted]
    return [float(f"{float(value):.9g}") if task.is_regression else int(value) for value in predicted]
