"""What makes batches of a task's encoded rows."""

from typing import Any

import numpy
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding, PreTrainedTokenizerBase

from ..model_inputs import IGNORED
from ..tasks.question_windows import ASIDE as OF_WINDOWS
from ..tasks.task import Task

# What encoded rows have beside what a model reads.
_ASIDE = ("first_pieces", "length", *OF_WINDOWS)


def _read(features: Any) -> list[dict[str, Any]]:
    """Rows without what no model reads."""
    return [{name: value for name, value in row.items() if name not in _ASIDE} for row in features]


class _TagCollator(DataCollatorForTokenClassification):
    """Pads labels as their tokens are padded, and passes over what no model reads."""

    def __call__(self, features: Any, return_tensors: Any = None) -> Any:
        return super().__call__(_read(features), return_tensors)


class _SpanCollator(DataCollatorWithPadding):
    """Pads windows of contexts, and passes over what no model reads."""

    def __call__(self, features: Any) -> Any:
        return super().__call__(_read(features))


def collator_of(task: Task, tokenizer: PreTrainedTokenizerBase) -> Any:
    """The collator of a task's rows: of tags, each token has a label, -100 at padding; of spans, each row has two positions."""
    collators: dict[str, Any] = {"tags": _TagCollator, "spans": _SpanCollator}
    return collators.get(task.kind, DataCollatorWithPadding)(tokenizer)


def counted_labels(labels: Any, task: Task) -> numpy.ndarray:
    """The labels of encoded rows as `row_logits` has their logits: of rows, `[rows]` or `[rows, C]`, or of tagged words, `[words]`."""
    if not task.has_tags:
        return numpy.asarray(labels)
    of_tokens = numpy.concatenate([numpy.asarray(row) for row in labels])
    counted: numpy.ndarray = of_tokens[of_tokens != IGNORED]
    return counted
