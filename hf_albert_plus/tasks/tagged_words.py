"""Words and their tags, as lists of equal length in every row of a table."""

from collections import Counter
from operator import eq
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, shown
from .column_roles import Columns, holds_words, is_list, is_text
from .joined_labels import list_in
from .labels import FoundLabels, check_known, label_name
from .row_texts import check_utf8
from .tag_schemes import OUTSIDE, check_scheme, find_scheme
from .task import Task
from .word_pieces import empty_word

if TYPE_CHECKING:
    import pyarrow

# Of the rows whose lists are as long as each other, from which on the others are faults.
_MOST = 0.5


def are_tagged(table: "pyarrow.Table", columns: Columns) -> bool:
    """Whether a table's texts are lists of words, and its labels lists of as many names; both may be written in JSON or in Python."""
    if len(columns.texts) != 1 or len(columns.labels) != 1:
        return False
    tags = _lists(table, columns.labels[0])
    words = None if tags is None else _lists(table, columns.texts[0])
    if tags is None or words is None:
        return False
    rows = [pair for pair in zip(words, tags, strict=True) if pair[0]]
    alike = sum(names is not None and len(of_row) == len(names) for of_row, names in rows)
    return alike > 0 and alike >= _MOST * len(rows)


def _lists(table: "pyarrow.Table", name: str) -> list[Any] | None:
    """The lists of a column, null where a row has none; None where another value is in it."""
    rows = []
    for value in table.column(name).to_pylist():
        rows.append(list_in(value))
        if not isinstance(rows[-1], list | None):
            return None
    return rows


def with_words(table: "pyarrow.Table", columns: Columns) -> Columns:
    """The columns with lists of words in place of the text that they make, where labels are lists of as many."""
    (text, *other_texts), (labels, *other_labels) = columns.texts, columns.labels
    if other_texts or other_labels or not is_list(table.column(labels)) or not is_text(table.column(text)):
        return columns
    said = [_letters(value or "") for value in table.column(text).to_pylist()]
    for name in table.column_names:
        instead = Columns((name,), columns.labels)
        if name == labels or not holds_words(table.column(name)) or not are_tagged(table, instead):
            continue
        words = [_letters("".join(filter(None, of_row or ()))) for of_row in table.column(name).to_pylist()]
        if sum(map(eq, words, said)) > _MOST * len(said):
            return instead
    return columns


def _letters(text: str) -> str:
    return "".join(text.split())


def find_tags(table: "pyarrow.Table", columns: Columns, *, where: str) -> FoundLabels:
    """What the tags of training rows are: their names, `O` first where it is one of them, and their scheme.

    Raises:
        InvalidInput: more than a column of words and one of tags, lists that do not fit together, a single tag, or tags that break
            their scheme.
    """
    if len(columns.texts) != 1 or len(columns.labels) != 1:
        raise InvalidInput(
            "tags are of the words of one text",
            got=f"the columns {', '.join((*columns.texts, *columns.labels))}",
            repair="name one --text-column with lists of words, and one --label-column with lists of tags",
        )
    words = read_words(table, columns.texts[0], where=where)
    sentences = _lists_of_tags(table, columns.labels[0], words, where=where)
    _check_are_words(words, columns.texts[0], where=where)
    counts = Counter(tag for tags in sentences for tag in tags)
    if len(counts) < 2:
        raise InvalidInput(
            "a task of tags must have at least two", got=f"{next(iter(counts))!r} alone in {where}", repair="choose another --label-column"
        )  # fmt: skip
    scheme = find_scheme(sentences, where=where)
    first = OUTSIDE if OUTSIDE in counts else min(counts, key=lambda tag: (-counts[tag], tag))
    names = sorted(counts, key=lambda tag: (tag != first, tag if scheme in ("runs", "plain") else tag[2:], tag))
    return FoundLabels("tags", tuple(names), None, scheme)


def _check_are_words(rows: list[list[str]], name: str, *, where: str) -> None:
    """Refuses lists of sentences: most of the words have blanks within.

    Raises:
        InvalidInput: such lists.
    """
    texts = [word for words in rows for word in words if len(word.split()) > 1]
    if len(texts) > _MOST * sum(map(len, rows)):
        raise InvalidInput(
            "tags are of single words",
            got=f"{shown(texts[0])} in column {name!r} of {where}",
            repair="write a row for each of these texts, with its own label",
        )


def read_words(table: "pyarrow.Table", name: str, *, where: str) -> list[list[str]]:
    """The words of every row.

    Raises:
        InvalidInput: a value that is no list of words, a row without any, an empty word, or characters that UTF-8 lacks.
    """
    rows = []
    for place, value in enumerate(table.column(name).to_pylist(), start=1):
        words = list_in(value)
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise InvalidInput(
                f"column {name!r} must hold a list of words in every row",
                got=f"{shown(value)} in row {place} of {where}",
                repair='write ["as", "this"], in a jsonl or parquet file, or a word a line as .conll',
            )
        empty = empty_word(words)
        if empty is not None:
            raise InvalidInput(
                f"words of column {name!r} must not be empty",
                got=f"{shown(words[empty])}, word {empty + 1} of row {place} in {where}",
                repair="drop it and its tag",
            )
        rows.append(words)
    check_utf8((word for words in rows for word in words), name, where=where)
    return rows


def read_tags(table: "pyarrow.Table", words: list[list[str]], task: Task, *, where: str) -> list[list[int]]:
    """The ids of every row's tags.

    Raises:
        InvalidInput: lists of other lengths than their words, tags that the task does not know, or that break its scheme.
    """
    sentences = _lists_of_tags(table, task.label_columns[0], words, where=where)
    check_known([tag for tags in sentences for tag in tags], task, where=where)
    check_scheme(sentences, task.tag_scheme or "plain", where=where)
    ids = {name: number for number, name in enumerate(task.labels)}
    return [[ids[tag] for tag in tags] for tags in sentences]


def _lists_of_tags(table: "pyarrow.Table", name: str, words: list[list[str]], *, where: str) -> list[list[str]]:
    rows = []
    for place, (value, of_row) in enumerate(zip(table.column(name).to_pylist(), words, strict=True), start=1):
        tags: Any = list_in(value)
        if not isinstance(tags, list) or not all(_is_name(tag) for tag in tags):
            raise InvalidInput(
                f"column {name!r} must hold a list of tags in every row, one a word",
                got=f"{shown(value)} in row {place} of {where}",
                repair='write ["O", "B-city"], or choose another --label-column',
            )
        if len(tags) != len(of_row):
            raise InvalidInput(
                "every word must have its tag",
                got=f"{len(of_row)} words and {len(tags)} tags in row {place} of {where}: {shown(' '.join(of_row))}",
                repair="write as many tags as words there, or drop the row",
            )
        rows.append([label_name(tag) for tag in tags])
    return rows


def _is_name(tag: Any) -> bool:
    return isinstance(tag, str | int) and bool(str(tag).strip())
