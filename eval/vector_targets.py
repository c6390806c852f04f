"""What makes vectors of texts to be compared with each other: an encoder on an engine, or the static vectors of an encoder's tokens, which
are the floor."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy
import torch

from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.runtime_files import model_hash
from hf_albert_plus.engines.text_encoder import TextEncoder
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.floor.static_embeddings import StaticEmbeddings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.heads import is_bare_encoder
from hf_albert_plus.records.files import file_sha256

STATIC = "static vectors"
# What decides a vector beside the weights.
_READ = {"config.json", "modules.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "spiece.model"}


class VectorTarget(Protocol):
    """Vectors of texts, and how near two of them are.

    Attributes:
        sha256: hash of what decides a vector.
        max_length: longest text in tokens; the rest is cut. None where nothing is cut.
    """

    @property
    def sha256(self) -> str: ...

    @property
    def max_length(self) -> int | None: ...

    def encode(self, texts: list[str], *, description: str | None = None) -> torch.Tensor:
        """Vectors of texts, `[texts, hidden]`."""
        ...

    def cross(self, queries: torch.Tensor, documents: torch.Tensor) -> numpy.ndarray:
        """How near pairs of vectors are, `[pairs, hidden]` twice -> `[pairs]`; one query `[1, hidden]` meets all documents."""
        ...


def vectors_hash(directory: str | Path, runtime: str) -> str:
    """Hash of all that decides the vectors of a model directory: weights, config and tokenizer."""
    folder = Path(directory)
    read = [path for path in sorted([*folder.iterdir(), *folder.glob("1_Pooling/*")]) if path.name in _READ]
    return list_hash([model_hash(directory, runtime), *(f"{path.name} {file_sha256(path)}" for path in read)])


def list_hash(lines: list[str]) -> str:
    """Hash of lines, each with its length before it, so that no two lists run together into one."""
    return hashlib.sha256("".join(f"{len(line)} {line}\n" for line in lines).encode()).hexdigest()


def is_encoder(directory: str | Path) -> bool:
    """Whether a model directory holds a bare encoder, which classifies nothing."""
    return is_bare_encoder(load_config(directory, option="a target"))


class _ByCosine:
    """Texts that are as near as the cosine of their vectors."""

    def cross(self, queries: torch.Tensor, documents: torch.Tensor) -> numpy.ndarray:
        """As `VectorTarget`; 0 where a vector is 0.

        Raises:
            InvalidInput: vectors that are not finite, which would rank before all others.
        """
        one, other = (torch.nn.functional.normalize(each.double(), dim=-1) for each in (queries, documents))
        cosines: numpy.ndarray = (one * other).sum(dim=-1).numpy()
        if not numpy.isfinite(cosines).all():
            raise InvalidInput(
                "vectors must be finite", got="NaN or infinity", repair="train in fp32, or at a lower learning rate"
            )
        return cosines


@dataclass(frozen=True)
class EncoderVectors(_ByCosine):
    """A sentence encoder on an engine; texts are as near as the cosine of their vectors."""

    encoder: TextEncoder
    sha256: str
    max_length: int

    @classmethod
    def open(cls, target: Target, *, max_length: int, threads: int | None) -> "EncoderVectors":
        """Opens an export with `--pooling`, or a directory whose modules.json says how it makes vectors.

        Raises:
            InvalidInput: it gives no vectors, or has fewer positions than `max_length`.
        """
        encoder = TextEncoder(target.directory, target.runtime, cores=threads, max_length=max_length)
        return cls(encoder, vectors_hash(target.directory, target.runtime), max_length)

    def encode(self, texts: list[str], *, description: str | None = None) -> torch.Tensor:
        """As `VectorTarget`."""
        return torch.as_tensor(self.encoder.encode(texts, show_progress_bar=description is not None))


@dataclass(frozen=True)
class StaticVectors(_ByCosine):
    """The floor: the mean of vectors that an encoder gives its tokens one by one (model2vec), whose cosine says how near texts are."""

    vectors: StaticEmbeddings
    max_length: int | None = None

    @classmethod
    def of(cls, encoder: str, texts: list[str]) -> "StaticVectors":
        """The vectors of an encoder's tokens, those that texts have often weighing less.

        Args:
            encoder: directory or Hub id, with its tokenizer.
        """
        return cls(StaticEmbeddings.of(texts, teacher=encoder))

    @property
    def sha256(self) -> str:
        """Of the table of vectors."""
        return hashlib.sha256(self.vectors.vectors_VD.tobytes()).hexdigest()

    def encode(self, texts: list[str], *, description: str | None = None) -> torch.Tensor:
        """As `VectorTarget`."""
        return torch.from_numpy(numpy.asarray(self.vectors.vectors(texts), dtype=numpy.float32))
