"""Which columns of a table hold the texts and the labels, found where only one reading is possible."""

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, suggest
from .data_settings import DataSettings
from .written_numbers import as_number

if TYPE_CHECKING:
    import pyarrow

# What the name of a column of names adds to that of the numbers that they stand for, as label_text beside label.
_OF_NAMES = ("_text", "_name", "_names", "_str", "_string")
# Names that say what a column is, in lower case.
_LABELS = (
    "label", "labels", "intent", "intents", "class", "classes", "category", "categories", "target", "sentiment", "score",
    "rating", "topic", "topics", "tag", "tags", "stars", "y",
)  # fmt: skip
# Names of labels where no column has one of the former; what a stance is towards is no label.
_OTHER_LABELS = ("stance", "emotion", "emotions", "polarity")
_STANCE, _OF_STANCES = "stance", ("target", "topic", "topics")
# What the name of a label ends with where no column is called so, as airline_sentiment.
_ENDINGS = ("label", "intent", "class", "category", "target", "sentiment", "topic")
_TEXTS = (
    "text", "sentence", "utterance", "query", "review", "comment", "content", "message", "body", "question", "tokens", "words", "title",
)  # fmt: skip
_PAIRS = (
    ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("question", "sentence"), ("text1", "text2"),
    ("text_a", "text_b"), ("sentence_a", "sentence_b"), ("question", "passage"), ("query", "document"), ("question", "answer"), ("text", "text_pair"),
)  # fmt: skip
_NUMBERING = ("idx", "id", "index", "guid", "row", "row_id", "unnamed: 0", "__index_level_0__", "")
# What the names of columns end with that say which row it is, or when it was written; with such words in them ids are of classes.
_WHICH_ROW = (
    "id", "ids", "qid", "uid", "pid", "sid", "docid", "userid", "tweetid", "uuid", "guid", "date", "timestamp", "datetime", "at",
)  # fmt: skip
_OF_CLASSES = ("language", "lang", "genre", "dialect", "speaker", "type", "group", "domain")
# Flags in words, as parquet has them where `datasets` gave them names.
_TRUTHS = ("true", "false")
# Another column of sentences beside a text called so is a remark on it; beside a title, say, it may be the text.
_CERTAIN_TEXT = "text"
# Of so many rows or more a column without equal values tells rows apart, and names no classes.
_ROWS_TO_TELL = 20
# A column of text has longer values than one of names, or hardly any twice.
_WORDS_OF_TEXT = 3
_NAMES_REPEAT = 0.5


@dataclass(frozen=True)
class Columns:
    """The columns of a table that a task reads."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]


def find_columns(table: "pyarrow.Table", settings: DataSettings, *, where: str) -> Columns:
    """The text and label columns of a table: those that the settings name, the others by name or by what is in them.

    Raises:
        InvalidInput: a name that is no column, or more than one reading, or none.
    """
    names = list(table.column_names)
    given = [
        name for name in (settings.text_column, settings.text_pair_column, *settings.label_column) if name is not None
    ]
    for name in given:
        if name not in names:
            raise InvalidInput(
                "a column must be one of the data's", got=f"{name!r}, and {where} has {', '.join(names) or 'none'}", repair=suggest(name, names)
            )  # fmt: skip
    if len(set(given)) < len(given):
        raise InvalidInput(
            "a column must be a text or a label, not both", got=", ".join(given), repair="name two columns"
        )
    free = [name for name in names if name not in given and name.lower() not in _NUMBERING]
    labels = settings.label_column or _find_labels(
        table, free, texts_known=settings.text_column is not None, where=where
    )
    if settings.text_column is not None:
        texts = [name for name in (settings.text_column, settings.text_pair_column) if name is not None]
    else:
        texts = _find_texts(table, [name for name in free if name not in labels], where=where)
    if "label" in texts:  # rows have their label under that name
        raise InvalidInput(
            "a column of texts must not be called label", got=f"that of {where}", repair="rename that column"
        )
    return Columns(tuple(texts), tuple(labels))


def _find_labels(table: "pyarrow.Table", free: list[str], *, texts_known: bool, where: str) -> tuple[str, ...]:
    named = _named_labels(free)
    if len(named) == 1:
        return (_with_names(table, named[0], free),)
    ending = [name for name in free if re.split(r"[\W_]+", name.lower())[-1] in _ENDINGS]
    if not named and len(ending) == 1 and not _holds_text(table.column(ending[0])):
        return tuple(ending)
    flags = tuple(name for name in free if _holds_flags(table.column(name)))
    if not named and len(flags) > 1 and not _is_one_truth(table, flags):
        return flags
    others = [name for name in (named or free) if texts_known or not _holds_text(table.column(name))]
    if not named:
        others = [name for name in others if not _says_which_row(name)]
        others = [name for name in others if not _holds_one_value(table.column(name))] or others
    if not texts_known and not named and len(others) > 1:
        # Short texts that repeat may look like labels, but their name says what they are.
        others = [name for name in others if name.lower() not in _TEXTS] or others
    if len(others) > 1:
        others = [name for name in others if not _tells_rows_apart(table.column(name))] or others
    if len(others) == 1:
        return tuple(others)
    if not others and not texts_known and len(free) == 2:
        # Two columns of long texts, say: none is a label.
        others = free
    raise InvalidInput(
        "one column must be the label",
        got=f"{', '.join(others or free) or 'no column'} in {where}, of which {'any could be' if others else 'none seems to be'}",
        repair="add --label-column NAME",
    )


def _with_names(table: "pyarrow.Table", label: str, free: list[str]) -> str:
    """The column with the names of a label's numbers, where there is one with a name for each number; else the label itself."""
    lower = {name.lower(): name for name in free}
    columns = [lower[label.lower() + ending] for ending in _OF_NAMES if label.lower() + ending in lower]
    ids = [str(value) for value in table.column(label).to_pylist()]
    if not all(re.fullmatch(r"[+-]?\d+(\.0+)?", value) for value in ids):
        return label
    for column in columns:
        values = table.column(column).to_pylist()
        pairs = set(zip(ids, values, strict=True))
        if is_text(table.column(column)) and len(pairs) == len(set(ids)) == len(set(values)) < len(ids):
            return column
    return label


def _find_texts(table: "pyarrow.Table", free: list[str], *, where: str) -> list[str]:
    lower = {name.lower(): name for name in free}
    pairs = [pair for pair in _PAIRS if all(name in lower for name in pair)]
    if len(pairs) == 1:
        return [lower[name] for name in pairs[0]]
    named = [lower[name] for name in _TEXTS if name in lower]
    if len(named) == 1 and named[0].lower() != _CERTAIN_TEXT:
        named += [name for name in free if name not in named and _holds_text(table.column(name))]
    if len(named) == 1:
        return named
    written = [name for name in (named or free) if is_text(table.column(name))]
    if not named:
        written = [name for name in written if not _says_which_row(name) and not _holds_numbers(table.column(name))]
    written = written or [name for name in (named or free) if holds_words(table.column(name))]
    if len(written) > 1:
        sentences = [name for name in written if _holds_text(table.column(name))]
        written = sentences or written
    if len(written) == 1:
        return written
    repair = "add --text-column NAME"
    if len(written) == 2:
        first, second = (shlex.quote(name) for name in sorted(written, key=free.index))
        repair = f"add --text-column {first} or --text-column {second}, or both as a pair: --text-column {first} --text-pair-column {second}"
    raise InvalidInput(
        "one column must be the text, or two of a known pair",
        got=f"{', '.join(written or free) or 'no other column'} in {where}",
        repair=repair,
    )


def is_text(column: "pyarrow.ChunkedArray") -> bool:
    """Whether a column holds strings."""
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(column: "pyarrow.ChunkedArray") -> bool:
    """Whether a column holds lists."""
    from pyarrow import types

    kind = column.type
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def holds_words(column: "pyarrow.ChunkedArray") -> bool:
    """Whether a column holds lists of strings."""
    from pyarrow import types

    return is_list(column) and (
        types.is_string(column.type.value_type) or types.is_large_string(column.type.value_type)
    )


def _named_labels(free: list[str]) -> list[str]:
    """Columns that are called as labels are."""
    named = [name for name in free if name.lower() in _LABELS]
    others = [name for name in free if name.lower() in _OTHER_LABELS]
    stances = [name for name in others if name.lower() == _STANCE]
    if stances and all(name.lower() in _OF_STANCES for name in named):
        return stances
    return named or others


def _says_which_row(name: str) -> bool:
    """Whether a column is called as one that numbers or dates rows, or says where they come from; `label_id` is a label."""
    words = [word.lower() for word in re.split(r"[\W_\d]+|(?<=[a-z])(?=[A-Z])", name) if word]
    of_classes = {*_LABELS, *_OTHER_LABELS, *_ENDINGS, *_OF_CLASSES}
    return bool(words) and words[-1] in _WHICH_ROW and not set(words) & of_classes


def _is_one_truth(table: "pyarrow.Table", flags: tuple[str, ...]) -> bool:
    """Whether all columns of flags but one are true, or false, in every row."""
    same = [name for name in flags if _holds_one_value(table.column(name))]
    return len(same) == len(flags) - 1 and all(str(table.column(name)[0]).lower() in _TRUTHS for name in same)


def _holds_one_value(column: "pyarrow.ChunkedArray") -> bool:
    """Whether all rows of a column have the same value."""
    from pyarrow import types

    return not types.is_nested(column.type) and len(set(column.to_pylist())) == 1


def _holds_numbers(column: "pyarrow.ChunkedArray") -> bool:
    """Whether all strings of a column write numbers."""
    return all(as_number(value) is not None for value in column.to_pylist() if value)


def _holds_text(column: "pyarrow.ChunkedArray") -> bool:
    """Whether strings look like sentences: long ones, most of them different."""
    if not is_text(column):
        return False
    values: list[Any] = [value for value in column.to_pylist() if value]
    if not values:
        return False
    words = sum(len(value.split()) for value in values) / len(values)
    return words >= _WORDS_OF_TEXT and len(set(values)) > _NAMES_REPEAT * len(values)


def _tells_rows_apart(column: "pyarrow.ChunkedArray") -> bool:
    """Whether a column numbers or dates the rows: it has no value twice, and they are no decimal numbers."""
    from pyarrow import types

    if types.is_nested(column.type) or types.is_floating(column.type):
        return False
    values = [str(value) for value in column.to_pylist()]
    decimal = any(re.fullmatch(r"[+-]?\d*[.,]\d+(e[+-]?\d+)?", value.strip(), re.IGNORECASE) for value in values)
    return len(values) >= _ROWS_TO_TELL and len(set(values)) == len(values) and not decimal


def _holds_flags(column: "pyarrow.ChunkedArray") -> bool:
    """Whether a column holds nothing but 0 and 1, or true and false."""
    from pyarrow import types

    if types.is_nested(column.type):
        return False
    values = set(column.to_pylist())
    return bool(values) and any(values <= pair for pair in ({0, 1}, {"0", "1"}, {"0.0", "1.0"}, set(_TRUTHS)))
