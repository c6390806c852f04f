"""Rows of a task, whatever file they come from, and their token ids.

Rows have the task's columns alone, of the types that all else relies on. Sentences, pairs and token types are put together in
this one place.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints import open_tokenizer
from ..errors import InvalidInput, first_line
from ..model_inputs import longest_input, reads_token_types
from .long_rows import encode_long
from .question_windows import encode_questions
from .task import Task
from .word_pieces import encode_words

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

UNLABELLED = -1
_OF_DIAGNOSTICS = (
    "the diagnostics' labels are in diagnostic-full.tsv alone: put it into the folder diagnostic of --data"
)


def task_rows(table: "pyarrow.Table", task: Task, *, where: str, labelled: bool) -> "Dataset":
    """The rows of a table with the task's text columns, `label` (-1 where there is none) and, if the table has it, `idx`.

    Args:
        where: file or split, for the error.
        labelled: whether every row must have a label of the task.

    Raises:
        InvalidInput: a column that is missing, twice there, empty in some row or of another type, a label outside the task's, or no
            rows.
    """
    from datasets import ClassLabel, Dataset, Features, Value
    from pyarrow import Table

    _check_columns(table, task, where=where, labelled=labelled)
    columns = {name: _text(table, name, where=where) for name in task.columns}
    features: dict[str, Any] = {name: Value(str(column.type)) for name, column in columns.items()}
    columns["label"] = _labels(table, task, where=where)
    features["label"] = (
        Value(_value_type(columns["label"])) if task.is_regression else ClassLabel(names=list(task.labels))
    )
    if labelled:
        _check_labels(columns["label"].to_pylist(), task, where=where)
    if "idx" in table.column_names:
        columns["idx"] = _numbers(table, where=where)
        features["idx"] = Value(str(columns["idx"].type))
    schema = Features(features).arrow_schema
    return Dataset(Table.from_arrays(list(columns.values()), schema=schema))


def _check_columns(table: "pyarrow.Table", task: Task, *, where: str, labelled: bool) -> None:
    names = table.column_names
    needed = (*task.columns, "label") if labelled else task.columns
    missing = [name for name in needed if name not in names]
    if missing:
        raise InvalidInput(
            f"{task.name} needs the columns {', '.join(needed)}",
            got=f"{', '.join(names) or 'no columns'} in {where}",
            repair=f"rename or add {', '.join(missing)}",
        )
    twice = [name for name in (*task.columns, "label", "idx") if names.count(name) > 1]
    if twice:
        raise InvalidInput(
            "a column must be there once", got=f"{twice[0]!r} {names.count(twice[0])} times in {where}", repair="rename or drop one"
        )  # fmt: skip
    if table.num_rows == 0:
        raise InvalidInput("a split must have rows", got=f"none in {where}", repair="check the file")
    empty = {name: table.column(name).null_count for name in needed}
    if any(empty.values()):
        name = max(empty, key=empty.__getitem__)
        raise InvalidInput(
            f"column {name!r} must have a value in every row",
            got=f"{empty[name]} empty of {table.num_rows} in {where}",
            repair="drop or repair those rows",
        )


def _text(table: "pyarrow.Table", name: str, *, where: str) -> "pyarrow.ChunkedArray":
    import pyarrow
    from pyarrow import types

    column = _decoded(table.column(name))
    if types.is_string_view(column.type):
        column = column.cast(pyarrow.string())
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        raise InvalidInput(
            f"column {name!r} must hold text", got=f"{column.type} in {where}", repair="write that column as strings"
        )
    try:
        column.validate(full=True)
    except pyarrow.ArrowInvalid as error:
        raise InvalidInput(
            f"column {name!r} must hold UTF-8", got=f"{first_line(error)} in {where}", repair="write those rows again"
        ) from None
    return column


def _labels(table: "pyarrow.Table", task: Task, *, where: str) -> "pyarrow.ChunkedArray":
    import pyarrow
    from pyarrow import types

    if "label" not in table.column_names:
        return pyarrow.chunked_array([pyarrow.array([UNLABELLED] * table.num_rows, pyarrow.int64())])
    column = _decoded(table.column("label"))
    is_number = any(
        of_type(column.type)
        for of_type in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    )
    named = ", ".join(f"{number} for {name}" for number, name in enumerate(task.labels)) or "from 0 to 5"
    if not is_number:
        raise InvalidInput(
            "column 'label' must hold numbers", got=f"{column.type} in {where}", repair=f"write labels as numbers, {named}"
        )  # fmt: skip
    keeps_type = task.is_regression and types.is_floating(column.type) and not types.is_float16(column.type)
    try:
        numbers = column if keeps_type else column.cast(pyarrow.float32() if task.is_regression else pyarrow.int64())
    except pyarrow.ArrowInvalid as error:
        raise InvalidInput(
            "column 'label' must hold whole numbers", got=f"{first_line(error)} in {where}", repair=f"write labels as numbers, {named}"
        ) from None  # fmt: skip
    return numbers.fill_null(UNLABELLED)


def _check_labels(labels: list[Any], task: Task, *, where: str) -> None:
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
            repair=_OF_DIAGNOSTICS if task.trained_as else "use a labelled split, or map the labels",
        )


def _numbers(table: "pyarrow.Table", *, where: str) -> "pyarrow.ChunkedArray":
    """The rows' own numbers."""
    from pyarrow import types

    column = table.column("idx")
    if not types.is_integer(column.type) or column.null_count:
        got = f"{column.null_count} empty" if types.is_integer(column.type) else column.type
        raise InvalidInput(
            "column 'idx' must number the rows", got=f"{got} in {where}", repair="write whole numbers there, or rename or drop it"
        )  # fmt: skip
    return column


def _decoded(column: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
    """A dictionary's values in place of its codes."""
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column


def _value_type(column: "pyarrow.ChunkedArray") -> str:
    """What datasets calls a number's type."""
    return {"float": "float32", "double": "float64"}[str(column.type)]


def load_tokenizer(source: str | Path, config: "PreTrainedConfig") -> "PreTrainedTokenizerBase":
    """The tokenizer of a model, made to give token types where the model reads them, and only there.

    transformers 5's own AlbertTokenizer does not name `token_type_ids` among its inputs, which silently puts both
    sentences of a pair into segment 0.

    Raises:
        InvalidInput: the directory has no tokenizer, a broken one, one that cannot pad, or one with more tokens than the model.
    """
    tokenizer = open_tokenizer(
        source, rule="a model directory must hold its tokenizer", repair="save the tokenizer into it"
    )
    needed = max(len(tokenizer), max(tokenizer.get_vocab().values()) + 1)
    if needed > config.vocab_size:
        raise InvalidInput(
            f"the tokenizer must have at most vocab_size ({config.vocab_size}) tokens",
            got=f"{needed} in {source}",
            repair="use the tokenizer that the model was trained with",
        )
    if tokenizer.pad_token_id is None:
        raise InvalidInput(
            "the tokenizer must have a padding token",
            got=f"none in {source}",
            repair="set its pad_token and save it again",
        )
    return fitted_tokenizer(tokenizer, config)


def fitted_tokenizer(tokenizer: Any, config: "PreTrainedConfig") -> "PreTrainedTokenizerBase":
    """The tokenizer with the inputs that a model of this config reads."""
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if reads_token_types(config) else [])]
    tokenizer.model_input_names = names
    # Classes that have names of their own save only what they were made with.
    tokenizer.init_kwargs["model_input_names"] = names
    fitted: PreTrainedTokenizerBase = tokenizer
    return fitted


def encode(rows: "Dataset", task: Task, tokenizer: "PreTrainedTokenizerBase", *, max_length: int) -> "Dataset":
    """Rows of text -> rows of token ids with `labels` and, for batching by length, `length`; rows of tagged words also with
    `first_pieces` (see `encode_words`). Padding is the batch's business.

    Of a task that reads long texts in windows, a text has a row for each of its windows, with what it is `answering` for (see `encode_long`).
    A question has a row for each window of its context, with the positions of its answer in place of `labels` (see `encode_questions`)."""

    def tokenise(batch: dict[str, list[Any]], numbers: list[int]) -> dict[str, list[Any]]:
        columns = [batch[column] for column in task.columns]
        if task.has_spans:
            questions, contexts = columns
            of_windows = encode_questions(
                questions, contexts, batch["label"], tokenizer, max_length=max_length, numbers=numbers
            )
            return {**of_windows, "length": [len(ids) for ids in of_windows["input_ids"]]}
        labels: list[Any] = [float(label) for label in batch["label"]] if task.is_regression else batch["label"]
        if not task.long.is_cut:
            encoded = encode_long(columns, labels, numbers, task, tokenizer, max_length=max_length)
        elif task.has_tags:
            encoded = encode_words(columns[0], labels, tokenizer, max_length=max_length)
        else:
            encoded = {**tokenizer(*columns, truncation=True, max_length=max_length), "labels": labels}
        encoded["length"] = [len(ids) for ids in encoded["input_ids"]]
        return encoded

    encoded = rows.map(
        tokenise,
        batched=True,
        with_indices=True,
        remove_columns=rows.column_names,
        desc=f"tokenise {task.name}",
        keep_in_memory=True,
    )
    if task.kind != "classes":
        return encoded
    from datasets import Value

    return encoded.cast_column("labels", Value("int64"))


# The special tokens of a pair, and a word.
_SHORTEST = 4


def fits_positions(config: Any, max_length: int) -> None:
    """Refuses a length that has no room for words, or that the model has no positions for."""
    longest = longest_input(config)
    if max_length < _SHORTEST:
        raise InvalidInput(f"--max-length must be at least {_SHORTEST}", got=max_length, repair="use --max-length 128")
    if max_length > longest:
        raise InvalidInput(
            f"--max-length must not exceed the model's {longest} positions",
            got=max_length,
            repair=f"use --max-length {longest}",
        )
