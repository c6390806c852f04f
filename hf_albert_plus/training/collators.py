"""What makes batches of a task's encoded rows, and what belongs to the logits that come of them."""

from typing import Any

import numpy
from transformers import DataCollatorForTokenClassification, DataCollatorWithPadding, PreTrainedTokenizerBase

from ..model_inputs import IGNORED
from ..tasks.joined_answers import text_logits, text_numbers
from ..tasks.long_rows import ANSWERING, answering_of
from ..tasks.question_windows import ASIDE as OF_QUESTIONS
from ..tasks.task import Task

# What encoded rows have beside what a model reads.
_ASIDE = ("first_pieces", "length", ANSWERING, *OF_QUESTIONS)


class TextCollator(DataCollatorWithPadding):
    """Pads tokens, and passes over what no model reads."""

    def __call__(self, features: Any) -> Any:
        return super().__call__(_read(features))


class _TagCollator(DataCollatorForTokenClassification):
    """Pads labels as their tokens are padded, and passes over what no model reads."""

    def __call__(self, features: Any, return_tensors: Any = None) -> Any:
        return super().__call__(_read(features), return_tensors)


def collator_of(task: Task, tokenizer: PreTrainedTokenizerBase) -> Any:
    """The collator of a task's rows: of tags, each token has a label, -100 at padding; of spans, each row has two positions."""
    return (_TagCollator if task.has_tags else TextCollator)(tokenizer)


def _read(rows: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in _ASIDE} for row in rows]


def counted_labels(labels: Any, task: Task) -> numpy.ndarray:
    """The labels of encoded rows as `row_logits` has their logits: of rows, `[rows]` or `[rows, C]`, or of tagged words, `[words]`."""
    if not task.has_tags:
        return numpy.asarray(labels)
    of_tokens = numpy.concatenate([numpy.asarray(row) for row in labels])
    counted: numpy.ndarray = of_tokens[of_tokens != IGNORED]
    return counted


def joined(logits_NC: numpy.ndarray, rows: Any, task: Task) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The logits of texts with their labels, where they were read in windows; else those of rows, or of tagged words, as they are.

    Args:
        logits_NC: of encoded rows, as `row_logits` gives them.
        rows: the same, as `encode` gives them, in the same order.
    """
    labels = counted_labels(rows["labels"][:], task)
    answering = answering_of(rows)
    if answering is None or task.has_tags:
        return logits_NC, labels
    texts = text_numbers(answering)
    firsts = numpy.unique(texts, return_index=True)[1]
    return text_logits(logits_NC, texts, has_several=task.has_several_labels), labels[firsts]
