"""What is written of a row: where it comes from, its kept columns, and what the model says of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import pyarrow

from ..serving.answers import Answers, scores_of
from .rows import Rows


@dataclass(frozen=True)
class Answering:
    """
    Attributes:
        kept: schema of the columns that are copied.
    """

    labels: tuple[str, ...]
    problem_type: str
    kept: pyarrow.Schema

    @property
    def schema(self) -> pyarrow.Schema:
        """A label with its score and those of all labels in the model's order; where several labels may hold, scores alone; of a
        regression its value, or its values."""
        of_model: Sequence[tuple[str, pyarrow.DataType]]
        if self.problem_type.startswith("single"):
            of_model = [("label", pyarrow.string()), ("score", pyarrow.float32()), ("scores", _SCORES)]
        elif self._has_one_value:
            of_model = [("score", pyarrow.float32())]
        else:
            of_model = [("scores", _SCORES)]
        fields = [
            ("file", pyarrow.string()), ("row", pyarrow.int64()), *((field.name, field.type) for field in self.kept),
            *of_model, ("tokens", pyarrow.int32()), ("truncated", pyarrow.bool_()),
        ]  # fmt: skip
        return pyarrow.schema(fields)

    @property
    def _has_one_value(self) -> bool:
        return self.problem_type == "regression" and len(self.labels) == 1

    def table(self, rows: Rows, answers: Answers, *, path: str) -> pyarrow.Table:
        """
        Args:
            path: of the file that the rows are of.
        """
        scores = scores_of(answers.logits, self.problem_type).astype(numpy.float32)
        best = scores.argmax(axis=-1)
        columns = {
            "file": [path] * len(rows.numbers),
            "row": rows.numbers,
            "label": [self.labels[place] for place in best],
            "score": scores[:, 0] if self._has_one_value else scores[numpy.arange(len(scores)), best],
            "scores": list(scores),
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


_SCORES = pyarrow.list_(pyarrow.float32())

__all__ = ["Answering"]
