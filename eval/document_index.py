"""Two towers at work: vectors of texts, and an index that keeps those of documents."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from hf_albert_plus import AlbertPlusTwinModel
from hf_albert_plus.checkpoints import load_config, load_towers
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.batching import TOKEN_BUDGET, pad_rows, token_batches
from hf_albert_plus.export.engines import model_hash
from hf_albert_plus.files import file_sha256, writing
from hf_albert_plus.finetune import fits_positions
from hf_albert_plus.glue import load_tokenizer
from hf_albert_plus.heads import architecture_of
from hf_albert_plus.progress import track

# What decides a vector beside the weights.
_READ = {"config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "spiece.model"}


@dataclass(frozen=True)
class Towers:
    """An opened two-tower model.

    Attributes:
        sha256: hash of all that decides a vector: weights, config and tokenizer.
        max_length: of a text in tokens; the rest is cut.
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
    read = [path for path in sorted(Path(directory).iterdir()) if path.name in _READ]
    parts = [model_hash(directory, "torch"), *(f"{path.name} {file_sha256(path)}" for path in read)]
    return Towers(model.eval(), load_tokenizer(directory, config), _sha256(parts), max_length)


def _sha256(lines: list[str]) -> str:
    """Each line with its length before it, so that no two lists run together into one."""
    return hashlib.sha256("".join(f"{len(line)} {line}\n" for line in lines).encode()).hexdigest()


@dataclass(frozen=True)
class DocumentIndex:
    """Vectors of documents in the order of their texts, and hashes of what they were made from.

    Attributes:
        vectors: `[documents, hidden]`.
        made_from: what -> its hash or value.
    """

    vectors: torch.Tensor
    made_from: dict[str, str]

    @classmethod
    def build(cls, towers: Towers, texts: list[str]) -> "DocumentIndex":
        return cls(towers.encode(texts, description="encode documents"), _origin(towers, texts))

    def save(self, path: Path) -> None:
        """Writes a safetensors file, whole or not at all."""
        with writing(path) as temporary:
            save_file({"vectors": self.vectors}, temporary, metadata=self.made_from)

    @classmethod
    def load(cls, path: Path, towers: Towers, texts: list[str]) -> "DocumentIndex":
        """Reads the index of these texts by this model.

        Raises:
            InvalidInput: no index, or one of other texts, in another order, of another model or length.
        """
        expected = _origin(towers, texts)
        try:
            with safe_open(path, "pt") as file:
                made_from = file.metadata() or {}
                stale = [what for what, value in expected.items() if made_from.get(what) != value]
                if not stale:
                    return cls(file.get_tensor("vectors"), made_from)
        except (OSError, SafetensorError) as error:
            raise InvalidInput(
                "an index must be a readable safetensors file", got=f"{path} ({error})", repair="remove it"
            ) from None
        raise InvalidInput(
            "an index must be of this model and these documents, in their order",
            got=f"{path}, made from another {' and another '.join(stale)}",
            repair="remove it, and it is made again",
        )


def _origin(towers: Towers, texts: list[str]) -> dict[str, str]:
    return {"model": towers.sha256, "list of documents": _sha256(texts), "--max-length": str(towers.max_length)}


def index(towers: Towers, texts: list[str], *, file: Path | None = None) -> DocumentIndex:
    """The index in `file`; it is made, and kept there, where there is none.

    Raises:
        InvalidInput: the file is stale.
    """
    if file is not None and file.exists():
        return DocumentIndex.load(file, towers, texts)
    made = DocumentIndex.build(towers, texts)
    if file is not None:
        made.save(file)
    return made


__all__ = ["DocumentIndex", "Towers", "index", "open_towers"]
