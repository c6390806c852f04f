"""Vectors of documents that are encoded once and kept."""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.vector_targets import VectorTarget, list_hash
from hf_albert_plus.records.files import writing


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
    def build(cls, encoder: VectorTarget, texts: list[str]) -> "DocumentIndex":
        return cls(encoder.encode(texts, description="encode documents"), _origin(encoder, texts))

    def save(self, path: Path) -> None:
        """Writes a safetensors file, whole or not at all."""
        with writing(path) as temporary:
            save_file({"vectors": self.vectors}, temporary, metadata=self.made_from)

    @classmethod
    def load(cls, path: Path, encoder: VectorTarget, texts: list[str]) -> "DocumentIndex":
        """Reads the index of these texts by this model.

        Raises:
            InvalidInput: no index, or one of other texts, in another order, of another model or length.
        """
        expected = _origin(encoder, texts)
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


def _origin(encoder: VectorTarget, texts: list[str]) -> dict[str, str]:
    return {"model": encoder.sha256, "list of documents": list_hash(texts), "--max-length": str(encoder.max_length)}


def index(encoder: VectorTarget, texts: list[str], *, file: Path | None = None) -> DocumentIndex:
    """The index in `file`; it is made, and kept there, where there is none.

    Raises:
        InvalidInput: the file is stale.
    """
    if file is not None and file.exists():
        return DocumentIndex.load(file, encoder, texts)
    made = DocumentIndex.build(encoder, texts)
    if file is not None:
        made.save(file)
    return made
