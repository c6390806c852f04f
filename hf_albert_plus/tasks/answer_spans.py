"""Questions, their contexts, and answers that are spans of these, in the rows of a table."""

from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, shown
from .column_roles import Columns
from .data_settings import DataSettings
from .labels import FoundLabels
from .most_likely import json_value
from .row_texts import check_utf8
from .squad_json import ANSWERS, CONTEXT, QUESTION
from .task import Task

if TYPE_CHECKING:
    import pyarrow

# The names of a model's two outputs, in the order of its last layer's.
START_AND_END = ("start", "end")
NO_ANSWER: dict[str, list[Any]] = {"text": [], "answer_start": []}
_FORM = '{"text": ["in Bremen"], "answer_start": [17]}'


def find_span_columns(table: "pyarrow.Table", settings: DataSettings, *, where: str) -> Columns | None:
    """The columns of questions, contexts and answers, those that nobody names by their names; None where a table has others, or answers that
    are no lists of texts with the characters that they begin with.

    Raises:
        InvalidInput: somebody says that they are spans, and there are no such columns; or answers that are a text and a number each, not lists.
    """
    names = {name.lower(): name for name in table.column_names}
    # What `with_nested_columns` makes of them.
    without_lists = [names.get(f"{ANSWERS}.{key}") for key in NO_ANSWER]
    if None not in without_lists and not settings.label_column:
        raise InvalidInput(
            "the answers to a question must be lists of texts and of the characters that they begin with",
            got=f"a text and a number in {where}",
            repair=f"write {_FORM} as {ANSWERS!r}",
        )
    question = settings.text_column or names.get(QUESTION)
    context = settings.text_pair_column or names.get(CONTEXT)
    answers = settings.label_column[0] if len(settings.label_column) == 1 else names.get(ANSWERS)
    found = (question, context, answers)
    if question is None or context is None or answers is None or not set(found) <= set(table.column_names):
        if settings.kind is None:
            return None
        raise InvalidInput(
            "spans are of the columns question, context and answers",
            got=f"{', '.join(table.column_names) or 'no columns'} in {where}",
            repair="rename them, or add --text-column QUESTION --text-pair-column CONTEXT --label-column ANSWERS",
        )
    if settings.kind is None and not _are_answers(table, answers):
        return None
    return Columns((question, context), (answers,))


def _are_answers(table: "pyarrow.Table", name: str) -> bool:
    values = (json_value(value) for value in table.column(name).to_pylist())
    first = next((value for value in values if value is not None and value != []), None)
    if isinstance(first, list):
        return all(isinstance(each, dict) and set(NO_ANSWER) <= set(each) for each in first)
    return isinstance(first, dict) and set(NO_ANSWER) <= set(first)


def find_spans(table: "pyarrow.Table", columns: Columns, *, where: str) -> FoundLabels:
    """What the answers of training rows are: whether some questions have none.

    Raises:
        InvalidInput: rows that are not sound (see `read_answers`), or none with an answer.
    """
    read_passages(table, columns.texts[0], where=where)
    contexts = read_passages(table, columns.texts[1], where=where)
    answers = _answers(table, columns.labels[0], contexts, where=where)
    missing = sum(not each["text"] for each in answers)
    if missing == len(answers):
        raise InvalidInput(
            "some question must have an answer to learn from", got=f"none in {where}", repair="name the column of the answers: --label-column ANSWERS"
        )  # fmt: skip
    return FoundLabels("spans", START_AND_END, None, may_lack_answer=missing > 0)


def read_passages(table: "pyarrow.Table", name: str, *, where: str) -> list[str]:
    """The questions, or the contexts, of every row.

    Raises:
        InvalidInput: a value that is no text, or one of blanks alone; or characters that UTF-8 lacks.
    """
    values = table.column(name).to_pylist()
    for place, value in enumerate(values, start=1):
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(
                f"column {name!r} must have a text in every row", got=f"{shown(value)} in row {place} of {where}", repair="fill it in, or drop the row"
            )  # fmt: skip
    check_utf8(values, name, where=where)
    return values


def read_answers(table: "pyarrow.Table", contexts: list[str], task: Task, *, where: str) -> list[dict[str, list[Any]]]:
    """The answers of every row, as `datasets` has SQuAD's: lists of `text` and `answer_start`.

    Raises:
        InvalidInput: an answer that does not stand where it should in its context, or questions without one where the task has none such.
    """
    answers = _answers(table, task.label_columns[0], contexts, where=where)
    without = next((place for place, each in enumerate(answers, start=1) if not each["text"]), None)
    if without is not None and not task.may_lack_answer:
        raise InvalidInput(
            f"every question of {task.name} must have an answer, as those of its training rows",
            got=f"none in row {without} of {where}",
            repair="add it or drop the row; or train on rows of which some have no answer",
        )
    return answers


def hides_answers(table: "pyarrow.Table", task: Task) -> bool:
    """Whether no row of a task of spans has an answer."""
    values = (json_value(value) for value in table.column(task.label_columns[0]).to_pylist())
    return not any(value.get("text") if isinstance(value, dict) else value for value in values)


def _answers(table: "pyarrow.Table", name: str, contexts: list[str], *, where: str) -> list[dict[str, list[Any]]]:
    values = table.column(name).to_pylist()
    return [
        _of_row(value, context, name, f"row {place} of {where}")
        for place, (value, context) in enumerate(zip(values, contexts, strict=True), start=1)
    ]


def _of_row(value: Any, context: str, name: str, where: str) -> dict[str, list[Any]]:
    given = json_value(value)
    if given is None:
        raise InvalidInput(
            "every question must have its answer, or say that it has none",
            got=f"no value of {name!r} in {where}",
            repair=f'add it as {_FORM}; for none write {{"text": [], "answer_start": []}}, or "is_impossible": true in a SQuAD file',
        )
    if isinstance(given, list):
        given = {key: [each.get(key) if isinstance(each, dict) else None for each in given] for key in NO_ANSWER}
    if not _is_sound(given):
        raise InvalidInput(
            f"column {name!r} must hold texts and the character that each begins with, as many of one as of the other",
            got=f"{shown(value)} in {where}",
            repair=f"write {_FORM}",
        )
    for text, start in zip(given["text"], given["answer_start"], strict=True):
        _check_place(text, start, context, where)
    return {key: list(given[key]) for key in NO_ANSWER}


def _is_sound(given: Any) -> bool:
    if not isinstance(given, dict) or not all(isinstance(given.get(key), list) for key in NO_ANSWER):
        return False
    texts, starts = given["text"], given["answer_start"]
    return (
        len(texts) == len(starts)
        and all(isinstance(text, str) for text in texts)
        and all(type(start) is int for start in starts)
    )


def _check_place(text: str, start: int, context: str, where: str) -> None:
    """Refuses an answer that is not what stands in its context.

    Raises:
        InvalidInput: an empty one, or one that stands elsewhere, or nowhere.
    """
    if not text.strip():
        raise InvalidInput(
            "an answer must have a text",
            got=f"{shown(text)} in {where}",
            repair="write it, or leave the lists of that question empty where it has no answer",
        )
    end = start + len(text)
    if start < 0 or end > len(context):
        raise InvalidInput(
            f"an answer must lie in its context, which has {len(context)} characters",
            got=f"{shown(text)} from {start} to {end} in {where}",
            repair=_where_it_stands(text, start, context),
        )
    if context[start:end] != text:
        raise InvalidInput(
            "an answer must stand where answer_start says, in characters (Unicode's code points) from 0",
            got=f"{shown(text)} at {start}, where the context has {shown(context[start:end])}, in {where}",
            repair=_where_it_stands(text, start, context),
        )


def _where_it_stands(text: str, start: int, context: str) -> str:
    places = [
        place
        for place in (context.rfind(text, 0, max(0, start) + len(text)), context.find(text, max(0, start)))
        if place >= 0
    ]
    if not places:
        return "write an answer that is a part of its context, letter by letter"
    return f'it stands at {min(places, key=lambda place: abs(place - start))}: write that as "answer_start"'
