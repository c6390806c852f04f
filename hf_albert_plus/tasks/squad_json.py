"""SQuAD's own files: articles of paragraphs, each a context with its questions, as one row a question."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, first_line, shown
from .text_files import bare

if TYPE_CHECKING:
    import pyarrow

# What the columns are called in a table.
ID, QUESTION, CONTEXT, ANSWERS = "id", "question", "context", "answers"
_VERSION = re.compile(r"-v\d+(\.\d+)?$")
_TYPES = "texts of a SQuAD file must be strings, and answer_start whole numbers"
_REPAIR = (
    'write {"data": [{"paragraphs": [{"context": …, "qas": [{"question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}, '
    'or rows: [{"text": …, "label": …}, …]'
)


def version_of(file: Path) -> str:
    """What the name of `train-v2.0.json` says of its version; empty for none."""
    found = _VERSION.search(bare(file).stem)
    return found[0] if found else ""


def of_one_version(files: list[Path], split: str) -> list[Path]:
    """The files of a split, which are not joined where they are of several versions: the second has the rows of the first.

    Raises:
        InvalidInput: they are.
    """
    if len({version_of(file) for file in files}) > 1:
        raise InvalidInput(
            f"the {split} split must be of one version of SQuAD",
            got=", ".join(file.name for file in files),
            repair="keep one in the folder, or name its file",
        )
    return files


def read_squad(content: Any, path: Path) -> "pyarrow.Table":
    """The questions of a file, each with its context and its answers: their texts, and the character of the context that each begins with.
    One that version 2 marks with `is_impossible` has none; one without any that is not marked has null.

    Raises:
        InvalidInput: another form.
    """
    import pyarrow

    rows: list[dict[str, Any]] = []
    for article, of_file in enumerate(_lists(content, "data", path, "the file"), start=1):
        for number, paragraph in enumerate(_lists(of_file, "paragraphs", path, f"article {article}"), start=1):
            where = f"paragraph {number} of article {article}"
            for question in _lists(paragraph, "qas", path, where):
                rows.append(_row(question, paragraph.get(CONTEXT), path, where))
    answers = pyarrow.struct(
        [("text", pyarrow.list_(pyarrow.string())), ("answer_start", pyarrow.list_(pyarrow.int64()))]
    )
    schema = pyarrow.schema(
        [(ID, pyarrow.string()), (QUESTION, pyarrow.string()), (CONTEXT, pyarrow.string()), (ANSWERS, answers)]
    )
    try:
        return pyarrow.Table.from_pylist(rows, schema=schema)
    except (pyarrow.ArrowException, TypeError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidInput(
            _TYPES, got=f"{first_line(error)} in {path}", repair=_REPAIR
        ) from None  # fmt: skip


def _row(question: Any, context: Any, path: Path, where: str) -> dict[str, Any]:
    if not isinstance(question, dict) or not isinstance(question.get(ANSWERS, []), list):
        raise _fault(f"{shown(question)} in {where}", path)
    answers = question.get(ANSWERS, [])
    if not all(isinstance(answer, dict) for answer in answers):
        raise _fault(f"{shown(answers)} in {where}", path)
    found = {name: [answer.get(name) for answer in answers] for name in ("text", "answer_start")}
    for start in found["answer_start"]:
        if type(start) is not int:
            raise InvalidInput(_TYPES, got=f"{shown(start)} in {where} of {path}", repair=_REPAIR)
    is_marked = question.get("is_impossible") is True
    return {
        ID: None if question.get(ID) is None else str(question[ID]),
        QUESTION: question.get(QUESTION),
        CONTEXT: context,
        ANSWERS: {"text": [], "answer_start": []} if is_marked else found if answers else None,
    }


def _lists(content: Any, name: str, path: Path, where: str) -> list[Any]:
    found = content.get(name) if isinstance(content, dict) else None
    if not isinstance(found, list):
        raise _fault(f"no list {name!r} in {where}", path)
    return found


def _fault(got: str, path: Path) -> InvalidInput:
    return InvalidInput(
        "a file of JSON must be an array of rows, or have the form of SQuAD's", got=f"{got} of {path}", repair=_REPAIR
    )
