"""Labels as they are written in data, and as a model learns them: a class's id, a 0 or 1 for each label, or a number."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, shown, suggest
from .joined_labels import lists_in
from .label_kinds import find_kind, is_missing, present
from .most_likely import class_answers, most_likely
from .tag_schemes import TagScheme
from .task import Kind, Task
from .written_numbers import as_number, as_numbers

if TYPE_CHECKING:
    import pyarrow

UNLABELLED = -1
# More classes than that which hardly repeat are no classes: texts, or amounts.
_MANY, _MANY_NUMBERS = 20, 100
_REPEATS, _NUMBERS_REPEAT = 2, 20
# A whole number that another program wrote with a point.
_WHOLE = re.compile(r"([+-]?\d+)\.0+")
_TRUTHS = ("true", "false")


@dataclass(frozen=True)
class FoundLabels:
    """What the labels of the training rows are.

    Attributes:
        labels: names in the order of their ids, none for numbers.
        bounds: smallest and largest number.
        tag_scheme: how tags say where entities begin and end.
        may_lack_answer: of spans, whether some questions have none.
    """

    kind: Kind
    labels: tuple[str, ...]
    bounds: tuple[float, float] | None
    tag_scheme: TagScheme | None = None
    may_lack_answer: bool | None = None


def find_labels(table: "pyarrow.Table", columns: tuple[str, ...], *, kind: Kind | None, where: str) -> FoundLabels:
    """What the labels of training rows are.

    Args:
        columns: the label's column, or one for each label.
        kind: what they are, where somebody said it.

    Raises:
        InvalidInput: missing values, values of another kind, a single class, or classes that hardly repeat.
    """
    found = kind or find_kind(table, columns, where=where)
    if len(columns) > 1:
        if found != "labels":
            raise InvalidInput(
                "several label columns are several labels", got=f"--kind {found} and {', '.join(columns)}", repair="use --kind labels, or name one column"
            )  # fmt: skip
        for name in columns:
            _flags(table, name, where=where)
        return FoundLabels("labels", columns, None)
    (name,) = columns
    if found == "number":
        numbers = _numbers(table, name, where=where)
        if min(numbers) == max(numbers):
            raise InvalidInput(
                "numbers to learn must differ", got=f"{numbers[0]:g} in every row of {where}", repair="choose another --label-column"
            )  # fmt: skip
        return FoundLabels("number", (), (min(numbers), max(numbers)))
    if found == "labels":
        held = {label for labels in _lists(table, name, where=where) for label in labels}
        if not held:
            raise InvalidInput("rows must have labels", got=f"none in {where}", repair="choose another --label-column")
        return FoundLabels("labels", tuple(sorted(held, key=_order)), None)
    answers = class_answers(present(table, name, where=where), where=where)
    if answers is not None and len(answers[0]) > 1:
        return FoundLabels("classes", tuple(sorted(answers[0], key=_order)), None)
    names = _classes(table, name, where=where)
    return FoundLabels("classes", _checked_classes(names, name, where=where), None)


def read_labels(table: "pyarrow.Table", task: Task, *, where: str) -> list[Any]:
    """The labels of a task's rows: a class's id, a list of 0.0 and 1.0 a label, or a number.

    Raises:
        InvalidInput: missing values, values of another kind, or labels that the task does not know.
    """
    (first, *others) = task.label_columns
    if task.is_regression:
        return _numbers(table, first, where=where)
    if others:
        flags = [_flags(table, name, where=where) for name in task.label_columns]
        return [list(row) for row in zip(*flags, strict=True)]
    ids = {name: i for i, name in enumerate(task.labels)}
    if not task.has_several_labels:
        names = _classes(table, first, where=where, labels=task.labels)
        check_known(names, task, where=where)
        return [ids[name] for name in names]
    lists = _lists(table, first, where=where, known=task.labels)
    check_known([name for names in lists for name in names], task, where=where)
    rows = []
    for names in lists:
        row = [0.0] * len(ids)
        for name in names:
            row[ids[name]] = 1.0
        rows.append(row)
    return rows


def unlabelled(task: Task, count: int) -> list[Any]:
    """Labels that say that there are none."""
    if task.has_tags:
        return [[] for _ in range(count)]
    if task.has_spans:
        return [{"text": [], "answer_start": []} for _ in range(count)]
    one: Any = [float(UNLABELLED)] * task.num_labels if task.has_several_labels else UNLABELLED
    return [one] * count


def label_name(value: Any) -> str:
    """A label's name, of a string or a number."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _order(name: str) -> tuple[int, float, str]:
    """Numbers by their value, then names by their letters."""
    number = as_number(name)
    return (1, 0.0, name) if number is None else (0, number, name)


def _classes(table: "pyarrow.Table", name: str, *, where: str, labels: tuple[str, ...] = ()) -> list[str]:
    values = present(table, name, where=where)
    answers = class_answers(values, where=where, labels=labels)
    if answers is not None:
        return [most_likely(answer) for answer in answers]
    wrong = next((value for value in values if not isinstance(value, str | int | float)), None)
    if wrong is not None:
        raise InvalidInput(
            f"column {name!r} must hold one name or number a row", got=f"{shown(wrong)} in {where}", repair="use --kind labels for lists, or choose another --label-column"
        )  # fmt: skip
    between = next((value for value in values if isinstance(value, float) and not value.is_integer()), None)
    if between is not None:
        raise InvalidInput(
            f"column {name!r} must hold classes",
            got=f"{between!r}, a number between whole ones, in {where}",
            repair="use --kind number, or write names",
        )
    return [_class_name(value, labels) for value in values]


def _class_name(value: Any, known: tuple[str, ...]) -> str:
    """A class's name: one of those that are known, as it is; else `1.0` is 1, and `False` is the `false` that is known."""
    name = label_name(value)
    if name in known:
        return name
    if name.lower() in _TRUTHS:
        return next((one for one in known if one.lower() == name.lower()), name)
    whole = _WHOLE.fullmatch(name)
    return name if whole is None else whole[1]


def _checked_classes(names: list[str], column: str, *, where: str) -> tuple[str, ...]:
    known = sorted(set(names), key=_order)
    if len(known) == 1:
        raise InvalidInput(
            "a task of classes must have at least two", got=f"{known[0]!r} alone in column {column!r} of {where}", repair="choose another --label-column"
        )  # fmt: skip
    numbers = all(as_number(name) is not None for name in known)
    many, repeats = (_MANY_NUMBERS, _NUMBERS_REPEAT) if numbers else (_MANY, _REPEATS)
    if len(known) > many and len(known) * repeats > len(names):
        what = "amounts use --kind number" if numbers else "texts choose another --label-column"
        raise InvalidInput(
            f"classes must repeat: at least {repeats} rows each in the mean",
            got=f"{len(known):,} different values in the {len(names):,} rows of column {column!r} of {where}",
            repair=f"for {what}; for real classes bring more rows of each",
        )
    return tuple(known)


def check_known(names: list[str], task: Task, *, where: str) -> None:
    """Refuses labels that a task does not have.

    Raises:
        InvalidInput: such a label.
    """
    unknown = Counter(names).keys() - set(task.labels)
    if unknown:
        first = min(unknown)
        raise InvalidInput(
            f"a label of {task.name} must be one of its {task.num_labels}, those of the training rows",
            got=f"{first!r} and {len(unknown) - 1} more in {where}",
            repair=f"{suggest(first, list(task.labels)[:50])}; or train on rows with that label, or drop its rows",
        )


def _numbers(table: "pyarrow.Table", name: str, *, where: str) -> list[float]:
    values = present(table, name, where=where)
    numbers = as_numbers(values)
    wrong = next((place for place, number in enumerate(numbers) if number is None), None)
    if wrong is not None:
        raise InvalidInput(
            f"column {name!r} must hold finite numbers",
            got=f"{shown(values[wrong])} in row {wrong + 1} of {where}",
            repair="write it as 1234.5, or use --kind classes",
        )
    return [number for number in numbers if number is not None]


def _flags(table: "pyarrow.Table", name: str, *, where: str) -> list[float]:
    known = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "true": 1.0, "false": 0.0}
    values = [known.get(label_name(value).lower()) for value in present(table, name, where=where)]
    if None in values:
        raise InvalidInput(
            "a column for each label must hold 0 and 1",
            got=f"{shown(table.column(name)[values.index(None)].as_py())} in column {name!r} of {where}",
            repair="write 1 where the label holds",
        )
    return [value for value in values if value is not None]


def _lists(table: "pyarrow.Table", name: str, *, where: str, known: tuple[str, ...] = ()) -> list[list[str]]:
    """A list of names for each row, which may be empty."""
    rows = []
    values = table.column(name).to_pylist()
    for place, (value, names) in enumerate(zip(values, lists_in(values, known), strict=True)):
        if not isinstance(names, list) or any(is_missing(one) or isinstance(one, list | dict) for one in names):
            raise InvalidInput(
                f"column {name!r} must hold a list of labels in every row",
                got=f"{shown(value)} in row {place + 1} of {where}",
                repair='write [] for none and ["a", "b"] or a|b for two, or one column of 0 and 1 a label',
            )
        rows.append([label_name(one) for one in names])
    return rows
