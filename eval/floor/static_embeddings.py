"""Texts as the mean of vectors that their tokens always have, made once by an encoder (model2vec, Tulkens and van Dongen, 2024).

Each token of the encoder's vocabulary is encoded as a text of its own; the vectors go through PCA, and a frequent token weighs less, by
a / (a + p) with its share p of the training texts' tokens (Arora, Liang and Ma, 2017, eq. 3). V tokens, D dimensions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from tokenizers import Tokenizer
from transformers import AutoModel

from hf_albert_plus.config_files import load_config
from hf_albert_plus.records.progress import track
from hf_albert_plus.tasks.rows import load_tokenizer
from hf_albert_plus.weight_files import from_pretrained

_DIMENSIONS, _SMOOTH = 256, 1e-3
_BATCH = 512
_TOKENIZER = "tokenizer.json"


@dataclass(frozen=True)
class StaticEmbeddings:
    """A vector for every token.

    Attributes:
        tokenizer: without special tokens, padding or a longest length.
        vectors_VD: weighted.
    """

    tokenizer: Tokenizer
    vectors_VD: numpy.ndarray

    @classmethod
    def of(cls, texts: list[str], *, teacher: str) -> "StaticEmbeddings":
        """The vectors that a teacher gives the tokens, weighted by how frequent they are in training texts."""
        config = load_config(teacher, option="--teacher")
        tokenizer: Any = load_tokenizer(teacher, config)
        backend = _bare(tokenizer)
        vectors_VD = _principal(_token_vectors(teacher, config, tokenizer))
        counts_V = numpy.asarray(_counts(backend, texts, len(vectors_VD)).sum(axis=0)).ravel()
        shares_V = counts_V / max(counts_V.sum(), 1)
        weights_V = _SMOOTH / (_SMOOTH + shares_V)
        return cls(backend, (vectors_VD * weights_V[:, None]).astype(numpy.float32))

    def vectors(self, texts: list[str]) -> numpy.ndarray:
        """`[texts, D]`, of length 1; 0 of a text without tokens."""
        sums = _counts(self.tokenizer, texts, len(self.vectors_VD)) @ self.vectors_VD
        lengths = numpy.linalg.norm(sums, axis=1, keepdims=True)
        return sums / numpy.maximum(lengths, numpy.finfo(numpy.float32).tiny)

    def save(self, directory: Path) -> dict[str, numpy.ndarray]:
        """Writes the tokenizer. Returns the tensors to keep with it."""
        self.tokenizer.save(str(directory / _TOKENIZER))
        return {"vectors": self.vectors_VD}

    @classmethod
    def open(cls, directory: Path, tensors: dict[str, numpy.ndarray]) -> "StaticEmbeddings":
        """What `save` wrote."""
        return cls(Tokenizer.from_file(str(directory / _TOKENIZER)), tensors["vectors"])


def _bare(tokenizer: Any) -> Tokenizer:
    """A tokenizer's own copy that gives every token of a text."""
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    return backend


def _token_vectors(teacher: str, config: Any, tokenizer: Any) -> numpy.ndarray:
    """The mean of what the encoder gives each token and the special ones around it, `[V, H]`."""
    encoder, _ = from_pretrained(AutoModel, teacher, option="--teacher", config=config)
    encoder.eval()
    around = tokenizer("", add_special_tokens=True)["input_ids"]
    begin, end = around[: (len(around) + 1) // 2], around[(len(around) + 1) // 2 :]
    parts = []
    for first in track(range(0, config.vocab_size, _BATCH), total=-(-config.vocab_size // _BATCH), description="vectors of tokens"):  # fmt: skip
        ids = torch.arange(first, min(first + _BATCH, config.vocab_size))[:, None]
        whole = torch.cat([*(torch.full_like(ids, each) for each in begin), ids, *(torch.full_like(ids, each) for each in end)], dim=1)  # fmt: skip
        with torch.inference_mode():
            parts.append(encoder(input_ids=whole, attention_mask=torch.ones_like(whole)).last_hidden_state.mean(1))
    return torch.cat(parts).numpy()


def _principal(vectors_VH: numpy.ndarray) -> numpy.ndarray:
    from sklearn.decomposition import PCA

    kept = min(_DIMENSIONS, *vectors_VH.shape)
    reduced: numpy.ndarray = PCA(kept, svd_solver="covariance_eigh").fit_transform(vectors_VH.astype(numpy.float64))
    return reduced


def _counts(tokenizer: Tokenizer, texts: list[str], tokens: int) -> Any:
    """How often each text has each token, `[texts, V]`, sparse."""
    from scipy.sparse import csr_array

    encoded = [text.ids for text in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    ends = numpy.cumsum([0, *map(len, encoded)])
    ids = numpy.fromiter((each for text in encoded for each in text), dtype=numpy.int64, count=ends[-1])
    counts = csr_array((numpy.ones(len(ids), dtype=numpy.float32), ids, ends), shape=(len(texts), tokens))
    counts.sum_duplicates()
    return counts
