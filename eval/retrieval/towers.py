"""A two-tower model that is opened to encode texts, and to compare their vectors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from hf_albert_plus.checkpoints import load_towers
from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET, token_batches
from hf_albert_plus.engines.batching import pad_rows
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.vector_targets import vectors_hash
from hf_albert_plus.heads import architecture_of
from hf_albert_plus.records.progress import track
from hf_albert_plus.tasks.rows import fits_positions, load_tokenizer
from hf_albert_plus.twin_albert_plus import AlbertPlusTwinModel


@dataclass(frozen=True)
class Towers:
    """An opened two-tower model.

    Attributes:
        sha256: hash of all that decides a vector: weights, config and tokenizer.
        max_length: longest text in tokens; the rest is cut.
    """

    model: AlbertPlusTwinModel
    tokenizer: Any
    sha256: str
    max_length: int

    @torch.no_grad()
    def encode(self, texts: list[str], *, description: str | None = None) -> torch.Tensor:
        """Vectors of texts.

        Shape: `[texts, hidden]`.
        """
        encoded = self.tokenizer(texts, truncation=True, max_length=self.max_length)
        rows = [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]
        batches = token_batches([len(row["input_ids"]) for row in rows], budget=TOKEN_BUDGET)
        vectors = torch.empty(len(texts), self.model.config.hidden_size)
        for batch in track(batches, total=len(batches), description=description):
            vectors[batch] = self.model.encode(**pad_rows([rows[row] for row in batch], self.tokenizer))
        return vectors

    @torch.no_grad()
    def cross(self, queries: torch.Tensor, documents: torch.Tensor) -> numpy.ndarray:
        """Logits of pairs of vectors; one query `[1, hidden]` meets all documents.

        Shape: `[pairs, hidden]` twice -> `[pairs]`.

        Raises:
            InvalidInput: logits that are not finite, which would rank before all others.
        """
        logits: numpy.ndarray = self.model.cross(queries, documents).numpy()
        if not numpy.isfinite(logits).all():
            raise InvalidInput(
                "logits must be finite", got="NaN or infinity", repair="train in fp32, or at a lower learning rate"
            )
        return logits


def open_towers(directory: str | Path, *, max_length: int = 128) -> Towers:
    """Opens a two-tower model in fp32.

    Raises:
        InvalidInput: another architecture, weights missing or left over, or fewer positions than `max_length`.
    """
    config = load_config(directory, option="DIR")
    if architecture_of(config) != AlbertPlusTwinModel.__name__:
        raise InvalidInput(
            "DIR must hold two towers (AlbertPlusTwinModel)",
            got=f"{architecture_of(config)} in {directory}",
            repair="score a classifier with albert-plus eval",
        )
    fits_positions(config, max_length)
    model = load_towers(directory, option="DIR")
    return Towers(model.eval(), load_tokenizer(directory, config), vectors_hash(directory, "torch"), max_length)
