"""From examples to the batches that `AlbertPlusForPreTraining` reads."""

from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from ..draws import RowDraws
from .masking import IGNORED, Masking

Example = dict[str, Any]


def token_types(example: Example) -> list[int]:
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
        """What the training loop tells the epoch to."""
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

    def _row(self, examples: list[Example]) -> dict[str, torch.Tensor]:
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


__all__ = ["PretrainingCollator", "token_types"]
