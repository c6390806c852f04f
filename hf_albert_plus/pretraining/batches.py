"""The batches that `AlbertPlusForPreTraining` reads: examples padded, or packed into rows of fixed width without padding.

Sequences that share a row do not see each other.
"""

from typing import Any

import numpy
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from ..model_inputs import IGNORED
from ..training.row_order import RowDraws
from .masking import Masking

ExampleRow = dict[str, Any]


def token_types(example: ExampleRow) -> list[int]:
    """0 for the first segment, 1 for the second."""
    second = example["second_segment"] or example["length"]
    return [0] * second + [1] * (example["length"] - second)


class PretrainingCollator:
    """Masks each example and asks for the logits of its masked tokens alone.

    Args:
        masking: what is masked, and as what.
        width: None pads every example to the longest of its batch. A number packs: an item is then a list of examples that share
            a row of that width, one after the other (`PackedRows`).
        token_types: False for a model that has none.
    """

    def __init__(self, tokenizer: Any, *, masking: Masking, width: int | None, token_types: bool = True):
        self.pad = int(tokenizer.pad_token_id)
        self.masking = masking
        self.width = width
        self.token_types = token_types

    @property
    def draws(self) -> RowDraws:
        """The draws of the masking, which the training loop tells the epoch to."""
        return self.masking.draws

    def __call__(self, items: list[Any]) -> dict[str, torch.Tensor]:
        rows = [self._row([item] if self.width is None else item) for item in items]
        batch = {
            name: pad_sequence([row[name] for row in rows], batch_first=True, padding_value=padding)
            for name, padding in (("input_ids", self.pad), ("token_type_ids", 0), ("labels", IGNORED))
        }
        batch["sentence_order_label"] = torch.cat([row["sentence_order_label"] for row in rows])
        if not self.token_types:
            del batch["token_type_ids"]
        if self.width is None:
            lengths = torch.tensor([len(row["input_ids"]) for row in rows])
            batch["attention_mask"] = (torch.arange(batch["input_ids"].shape[1]) < lengths[:, None]).long()
        else:
            # Of their own number: what is left at a row's end sees itself alone.
            for name in ("position_ids", "sequence_ids"):
                batch[name] = pad_sequence([row[name] for row in rows], batch_first=True)
            stride = batch["input_ids"].shape[1]
            batch["first_positions"] = torch.cat([row["firsts"] + number * stride for number, row in enumerate(rows)])
        labels = batch["labels"].flatten()
        batch["masked_positions"] = (labels != IGNORED).nonzero().flatten()
        batch["labels"] = labels[batch["masked_positions"]]
        return batch

    def _row(self, examples: list[ExampleRow]) -> dict[str, torch.Tensor]:
        """The sequences of one row, one after the other."""
        ids: list[int] = []
        labels: list[int] = []
        types: list[int] = []
        positions: list[int] = []
        sequences: list[int] = []
        firsts: list[int] = []
        for number, example in enumerate(examples, start=1):
            firsts.append(len(ids))
            seen, wanted = self.masking(example["input_ids"])
            length = len(seen)
            ids += seen
            labels += wanted
            types += token_types(example)
            positions += range(length)
            sequences += [number] * length
        orders = [example["sentence_order_label"] for example in examples]
        columns = {"input_ids": ids, "labels": labels, "token_type_ids": types, "position_ids": positions}
        columns = {**columns, "sequence_ids": sequences, "firsts": firsts, "sentence_order_label": orders}
        return {name: torch.tensor(values) for name, values in columns.items()}


def pack(lengths: Any, *, width: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Rows of at most `width` tokens, each sequence where it leaves least room, the longest first (best fit decreasing: at most
    11/9 of the fewest rows there can be, and one more).

    Returns:
        the sequences' numbers, row after row, `[N]`; and where each row begins among them, with the end of the last,
        `[rows + 1]`.

    Raises:
        ValueError: a sequence that is longer than a row.
    """
    sizes = numpy.asarray(lengths, dtype=numpy.int32)
    if sizes.size == 0:
        return numpy.zeros(0, dtype=numpy.int64), numpy.zeros(1, dtype=numpy.int64)
    if sizes.max() > width:
        raise ValueError(f"no sequence may be longer than a row of {width} tokens, got one of {sizes.max()}")
    order = numpy.argsort(-sizes, kind="stable")
    # Most sequences fill a row so far that not even the shortest fits beside them.
    alone = int(numpy.searchsorted(-sizes[order], sizes.min() - width, side="left"))
    row_of = numpy.arange(sizes.size)
    count, smallest = alone, int(sizes.min())
    # Rows by the room that is left in them, where there is some that a sequence fits into.
    by_room: list[list[int]] = [[] for _ in range(width + 1)]
    for place in range(alone, sizes.size):
        size = int(sizes[order[place]])
        room = next((room for room in range(size, width + 1) if by_room[room]), None)
        if room is None:
            room, row = width, count
            count += 1
        else:
            row = by_room[room].pop()
        row_of[place] = row
        if room - size >= smallest:
            by_room[room - size].append(row)
    ends = numpy.cumsum(numpy.bincount(row_of, minlength=count))
    return order[numpy.argsort(row_of, kind="stable")], numpy.concatenate([[0], ends])


class PackedRows(Dataset[list[dict[str, Any]]]):
    """Item i is the list of the examples that share row i."""

    def __init__(self, examples: Any, *, width: int):
        self.examples = examples
        self.numbers, self.starts = pack(examples.with_format("numpy")["length"][:], width=width)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> list[dict[str, Any]]:
        return [self.examples[int(number)] for number in self.numbers[self.starts[index] : self.starts[index + 1]]]
