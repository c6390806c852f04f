"""The rows that a phase trains on, and how they become batches."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from ..errors import InvalidInput
from ..model_inputs import IGNORED
from ..pretraining.masking import Masking
from ..records.files import check_input_file
from ..tasks.joined_answers import text_numbers
from ..tasks.long_rows import answering_of
from ..tasks.own_data import more_texts
from ..tasks.question_windows import POSITIONS
from ..tasks.rows import encode
from ..tasks.soft_labels import SOFT_LABELS
from ..tasks.splits import load_split
from ..tasks.task import Task
from ..text.documents import Part

if TYPE_CHECKING:
    from datasets import Dataset

TEACHER_LOGITS, TEACHER_VECTORS = "teacher_logits", "teacher_vectors"
# Whether a row has a label, where some have none.
LABELLED = "labelled"
# The label of a row's two segments.
ORDER = "sentence_order_label"
_TEXTS = ("query", "document")


def task_rows(
    data: str, task: Task, tokenizer: PreTrainedTokenizerBase, *, max_length: int, soft_labels: str | None = None
) -> "Dataset":
    """The task's training rows as token ids with labels; with the column of a teacher's answers also their logits.
    Each window of a text has those of the text."""
    return _with_answers(load_split(data, task, "train", soft_labels=soft_labels), task, tokenizer, max_length)


def unlabelled_rows(
    texts: str, task: Task, tokenizer: PreTrainedTokenizerBase, *, max_length: int, soft_labels: str | None = None
) -> "Dataset":
    """Texts without labels as token ids; with a teacher's logits where they are read and there."""
    return _with_answers(more_texts(texts, task, soft_labels=soft_labels), task, tokenizer, max_length)


def _with_answers(rows: "Dataset", task: Task, tokenizer: PreTrainedTokenizerBase, max_length: int) -> "Dataset":
    encoded = encode(rows, task, tokenizer, max_length=max_length)
    if SOFT_LABELS not in rows.column_names:
        return encoded
    soft, answering = rows[SOFT_LABELS][:], answering_of(encoded)
    if answering is not None:
        soft = [soft[text] for text in text_numbers(answering)]
    # In the type of a teacher's own answers, beside which they may stand.
    return encoded.add_column(TEACHER_LOGITS, list(numpy.asarray(soft, dtype=numpy.float32)))


def together(labelled: "Dataset", unlabelled: "Dataset | None") -> "Dataset":
    """All rows of a phase, with a column that says which have a label, where some have none."""
    from datasets import concatenate_datasets

    if unlabelled is None:
        return labelled
    parts = ((labelled, True), (unlabelled, False))
    return concatenate_datasets([rows.add_column(LABELLED, [has_label] * len(rows)) for rows, has_label in parts])


def pair_rows(data: str, task: Task, tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> "Dataset":
    """The two texts of each row apart, as `query_input_ids`, `document_input_ids` and their kin, with labels."""
    rows = load_split(data, task, "train")

    def tokenise(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {"labels": batch["label"]}
        for name, column in zip(_TEXTS, task.columns, strict=True):
            encoded = tokenizer(batch[column], truncation=True, max_length=max_length)
            columns |= {f"{name}_{key}": values for key, values in encoded.items()}
        lengths = zip(*(columns[f"{name}_input_ids"] for name in _TEXTS), strict=True)
        columns["length"] = [max(len(ids) for ids in pair) for pair in lengths]
        return columns

    return rows.map(tokenise, batched=True, remove_columns=rows.column_names, keep_in_memory=True)


def text_rows(path: Path, tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> "Dataset":
    """Text, a paragraph a line and blank lines between documents, as blocks of `max_length` tokens, specials among them.
    No block crosses documents.

    Raises:
        InvalidInput: no such file, or no text in it.
    """
    from datasets import Dataset

    check_input_file(path, what="--text", form="a text file")

    def blocks() -> Iterator[dict[str, Any]]:
        for document in documents(path):
            cut = tokenizer(document, truncation=True, max_length=max_length, return_overflowing_tokens=True)
            for ids in cut["input_ids"]:
                yield {"input_ids": ids, "attention_mask": [1] * len(ids), "length": len(ids)}

    rows = list(blocks())
    if not rows:
        raise InvalidInput("--text must hold text", got=f"none in {path}", repair="give a paragraph a line")
    return Dataset.from_list(rows)


def documents(path: Path) -> Iterator[str]:
    """The documents of a text file: runs of lines between blank ones, those of an endless run in several.

    Raises:
        InvalidInput: bytes that are not UTF-8.
    """
    size = path.stat().st_size
    part = Part(str(path), "text", 0, size, size=size, option="--text")
    yield from map("\n".join, part.documents())


class Collator:
    """Pads rows to their longest. Every other column that is not a text's becomes a tensor as it is.

    Args:
        masking: what masks each row's words anew, their originals being the labels.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, masking: Masking | None = None):
        self.tokenizer = tokenizer
        self.masking = masking
        self.draws = None if masking is None else masking.draws

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        if self.masking is not None:
            masked = [self.masking(row["input_ids"]) for row in rows]
            batch = self._pad([{**row, "input_ids": ids} for row, (ids, _) in zip(rows, masked, strict=True)])
            labels = [torch.tensor(labels) for _, labels in masked]
            return {**batch, "labels": pad_sequence(labels, batch_first=True, padding_value=IGNORED)}
        return self._pad(rows)

    def _pad(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        texts = _TEXTS if "query_input_ids" in rows[0] else (None,)
        batch: dict[str, torch.Tensor] = {}
        for text in texts:
            prefix = "" if text is None else f"{text}_"
            names = {prefix + name: name for name in self.tokenizer.model_input_names if prefix + name in rows[0]}
            padded = self.tokenizer.pad(
                [{name: row[column] for column, name in names.items()} for row in rows], return_tensors="pt"
            )
            batch |= {column: padded[name] for column, name in names.items()}
        for name in ("labels", TEACHER_LOGITS, TEACHER_VECTORS, LABELLED, ORDER, *POSITIONS):
            if name in rows[0]:
                values = [torch.tensor(row[name]) for row in rows]
                # Labels of tokens are padded as their tokens are; all others are as long as each other.
                is_by_token = name == "labels" and values[0].dim() == 1
                batch[name] = self._of_tokens(values) if is_by_token else torch.stack(values)
        return batch

    def _of_tokens(self, labels: list[torch.Tensor]) -> torch.Tensor:
        side = self.tokenizer.padding_side
        return pad_sequence(labels, batch_first=True, padding_value=IGNORED, padding_side=side)
