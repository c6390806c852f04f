"""How often pieces, positions and token types occur in some texts: what a narrower embedding must keep of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from ..tasks.rows import encode
from ..tasks.splits import load_split
from ..tasks.task import Task

# Texts that are counted, spread evenly over all.
_TEXTS = 20_000


@dataclass(frozen=True)
class Occurrences:
    """Tokens of some texts.

    Attributes:
        pieces_V, positions_P, types_T: how many are of each piece, at each position and of each token type.
    """

    pieces_V: torch.Tensor
    positions_P: torch.Tensor
    types_T: torch.Tensor

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Sequence[int]]], config: Any) -> "Occurrences":
        """Counts those of rows of `input_ids` and, where a model reads them, `token_type_ids`, all without padding. To a config of fewer
        types a type that it has not is its last."""
        pieces, positions, types = (
            torch.zeros(max(size, 1), dtype=torch.float64)
            for size in (config.vocab_size, config.max_position_embeddings, config.type_vocab_size)
        )
        for row in rows:
            ids = torch.as_tensor(row["input_ids"])
            ones = torch.ones(len(ids), dtype=torch.float64)
            pieces.index_add_(0, ids, ones)
            positions[: len(ids)] += 1
            types_S = torch.as_tensor(row.get("token_type_ids", [0] * len(ids)))
            types.index_add_(0, types_S.clamp(max=len(types) - 1), ones)
        return cls(pieces, positions, types)


def occurrences_in_task(
    data: str, task: Task, tokenizer: PreTrainedTokenizerBase, config: Any, *, max_length: int
) -> Occurrences:
    """Those of a task's training texts, of 20,000 of them at most."""
    rows = load_split(data, task, "train")
    few = rows.select(range(0, len(rows), -(-len(rows) // _TEXTS)))
    longest = min(max_length, config.max_position_embeddings)
    return Occurrences.of(encode(few, task, tokenizer, max_length=longest), config)
