"""The file of a part: what is written of each row, and what was counted in it. It is there whole or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy
import pyarrow
import pyarrow.parquet as pq

from ..engines.text_answers import AnswerRule, TextAnswers
from ..engines.text_words import tagged_texts, words_of
from ..errors import InvalidInput
from ..records.files import sync
from ..records.outputs import new_file
from .columns import InputRows
from .plan import PlannedPart

_FLOATS, _NAMES = pyarrow.list_(pyarrow.float32()), pyarrow.list_(pyarrow.string())
_ENTITY: dict[Any, pyarrow.DataType] = {
    "label": pyarrow.string(), "text": pyarrow.string(), "start": pyarrow.int32(), "end": pyarrow.int32(), "score": pyarrow.float32(),
}  # fmt: skip
# What a tagger says of a text: its words with their tags, and the score of each, null of a word that was cut off; and its entities.
TAG_COLUMNS: dict[str, pyarrow.DataType] = {
    "words": _NAMES, "tags": _NAMES, "tag_scores": _FLOATS, "entities": pyarrow.list_(pyarrow.struct(list(_ENTITY.items()))),
}  # fmt: skip


@dataclass(frozen=True)
class OutputFormat:
    """The columns of the output.

    Attributes:
        rule: how the model's logits become answers.
        kept: schema of the columns that are copied.
        with_logits: whether the raw logits have a column, a list a row in the order of the model's labels.
    """

    rule: AnswerRule
    kept: pyarrow.Schema
    with_logits: bool = False

    @property
    def schema(self) -> pyarrow.Schema:
        """The columns with their types. A classifier's label comes with its score and those of all labels in the model's order; where
        several labels may be given, those that are come with their scores, the highest first; a regression has its value, or its values. A
        tagger has the text's words and their tags, and the entities that these are."""
        of_model: list[tuple[str, pyarrow.DataType]]
        if self.rule.is_by_token:
            of_model = [*TAG_COLUMNS.items()]
        elif self.rule.has_best:
            of_model = [("label", pyarrow.string()), ("score", pyarrow.float32()), ("scores", _FLOATS)]
        elif self.rule.has_several:
            of_model = [("labels", _NAMES), ("label_scores", _FLOATS), ("scores", _FLOATS)]
        elif self.rule.is_number:
            of_model = [("score", pyarrow.float32())]
        else:
            of_model = [("scores", _FLOATS)]
        if self.with_logits:
            of_model.append(("logits", _FLOATS))
        fields = [
            ("file", pyarrow.string()), ("row", pyarrow.int64()), *((field.name, field.type) for field in self.kept),
            *of_model, ("tokens", pyarrow.int32()), ("truncated", pyarrow.bool_()),
        ]  # fmt: skip
        return pyarrow.schema(fields)

    def table(self, rows: InputRows, answers: TextAnswers, *, path: str) -> pyarrow.Table:
        """Rows with what a model says of them.

        Args:
            path: path of the file that the rows are of.
        """
        columns = {
            "file": [path] * len(rows.numbers),
            "row": rows.numbers,
            **self._said(rows, answers),
            "logits": list(answers.logits),
            "tokens": answers.tokens,
            "truncated": answers.truncated,
        }
        arrays = [
            rows.kept.column(field.name)
            if field.name in self.kept.names
            else pyarrow.array(columns[field.name], field.type)
            for field in self.schema
        ]
        return pyarrow.Table.from_arrays(arrays, schema=self.schema)

    def _said(self, rows: InputRows, answers: TextAnswers) -> dict[str, Any]:
        """The columns of labels and scores."""
        if self.rule.is_by_token:
            return _tags([text for text in rows.texts if isinstance(text, str)], answers, self.rule)
        exact = self.rule.scores(answers.logits)
        scores = exact.astype(numpy.float32)
        if self.rule.is_number:
            return {"score": scores[:, 0]}
        if self.rule.has_several:
            given = [self.rule.answer(row) for row in exact]
            return {
                "labels": [[each["label"] for each in row] for row in given],
                "label_scores": [[each["score"] for each in row] for row in given],
                "scores": list(scores),
            }
        best = scores.argmax(axis=-1)
        return {
            "label": [self.rule.labels[place] for place in best],
            "score": scores[numpy.arange(len(scores)), best],
            "scores": list(scores),
        }


def _tags(texts: list[str], answers: TextAnswers, rule: AnswerRule) -> dict[str, Any]:
    """The columns of words, tags and entities."""
    said = tagged_texts([(text, words_of(text)) for text in texts], answers, rule)
    return {
        "words": [[word["word"] for word in each.words] for each in said],
        "tags": [[word["tag"] for word in each.words] for each in said],
        "tag_scores": [[word["score"] for word in each.words] for each in said],
        "entities": [each.entities for each in said],
    }


_FACTS = "hf_albert_plus"
# Workers that may die at a part.
_PATIENCE = 8


@dataclass(frozen=True)
class Tally:
    """What was counted in a part, or in several.

    Attributes:
        truncated: texts that were cut.
    """

    rows: int = 0
    tokens: int = 0
    truncated: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.rows + other.rows, self.tokens + other.tokens, self.truncated + other.truncated)


@contextmanager
def attempt(part: PlannedPart, file: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """Opens a file of its own for each attempt at a part: one that was given up may still write to its own. Those of the dead stay until the
    part is done, and so are counted.

    Raises:
        InvalidInput: too many died.
    """
    names = [file.with_name(f".{file.name}.{number}.tmp") for number in range(_PATIENCE)]
    free = [name for name in names if not name.exists()]
    if not free:
        first, rows = part.range.first, part.range.rows
        raise InvalidInput(
            f"a worker must live through rows {first} to {first + rows - 1} of {part.source.path}",
            got=f"{_PATIENCE} that died of them",
            repair="if they lack memory, use fewer --cores, a smaller --token-budget or a smaller --max-length",
        )
    with os.fdopen(new_file(free[0]), "wb") as stream:
        try:
            yield stream, free[0]
        finally:
            free[0].unlink(missing_ok=True)
    for dead in names:
        dead.unlink(missing_ok=True)


def give_name(temporary: Path, file: Path) -> None:
    """Gives the file of an attempt the name of its part."""
    try:
        os.replace(temporary, file)
        sync(file.parent)
    except FileNotFoundError:
        # Another attempt has done this part, and cleared up.
        if not file.exists():
            raise


def note_tally(writer: pq.ParquetWriter, tally: Tally) -> None:
    """Writes into a part what was counted in it, where `tally_of` reads it."""
    writer.add_key_value_metadata({_FACTS: json.dumps(asdict(tally))})


def tally_of(file: Path) -> Tally:
    """What was counted when a part was written."""
    return Tally(**json.loads(pq.read_metadata(file).metadata[_FACTS.encode()]))


def check_part(file: Path) -> None:
    """Reads a part that an earlier run has written: its pages have checksums.

    Raises:
        InvalidInput: it is no such part, or not as it was written.
    """
    try:
        if file.is_symlink():
            raise OSError("it is a link")
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            rows = sum(batch.num_rows for batch in opened.iter_batches())
        if rows != tally_of(file).rows:
            raise OSError(f"{rows} rows of {tally_of(file).rows}")
    except (OSError, pyarrow.ArrowException, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            "a part must be what was written", got=f"{file} ({error})", repair="it is scored anew"
        ) from None
