"""A classifier of the floor: vectors of texts, or of the words of a tagger's, and a linear map, kept as safetensors and JSON, so that nothing
has to be unpickled."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy
from safetensors.numpy import load_file, save_file
from typing_extensions import TypedDict

from hf_albert_plus.eval.floor.linear import Linear
from hf_albert_plus.eval.floor.static_embeddings import StaticEmbeddings
from hf_albert_plus.eval.floor.tf_idf import TfIdf
from hf_albert_plus.eval.floor.word_features import WordFeatures, WordsAlone
from hf_albert_plus.records.files import read_json, write_json

Kind = Literal["tf-idf", "static", "word-features", "frequent-tag"]
KINDS: dict[Kind, Any] = {
    "tf-idf": TfIdf,
    "static": StaticEmbeddings,
    "word-features": WordFeatures,
    "frequent-tag": WordsAlone,
}
_FILE, _TENSORS = "floor.json", "model.safetensors"


class _File(TypedDict):
    kind: Kind
    strength: float
    columns: list[str]
    labels: list[str]


@dataclass(frozen=True)
class FloorClassifier:
    """Texts, or pairs of them, or lists of words, to logits.

    Attributes:
        vectors: one of `KINDS`.
        columns: the task's texts.
        labels: their names, in the order of the logits.
    """

    kind: Kind
    vectors: Any
    linear: Linear
    columns: tuple[str, ...]
    labels: tuple[str, ...]

    def logits(self, texts: list[list[Any]]) -> Any:
        """A list for each of the task's columns -> `[texts, C]`; of lists of words a list of `[words, C]`."""
        return parted(self.linear.logits(features_of(self.vectors, texts)), texts)

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        tensors = {**self.vectors.save(directory), "weight": self.linear.weight_FC, "bias": self.linear.bias_C}
        save_file({name: numpy.ascontiguousarray(tensor) for name, tensor in tensors.items()}, directory / _TENSORS)
        facts = {"kind": self.kind, "strength": self.linear.strength, "columns": self.columns, "labels": self.labels}
        write_json(directory / _FILE, facts)

    @classmethod
    def open(cls, directory: Path) -> "FloorClassifier":
        """What `save` wrote."""
        facts: Any = read_json(directory / _FILE, what=_FILE, shape=_File, repair="build the floor again")
        tensors = load_file(directory / _TENSORS)
        linear = Linear(tensors.pop("weight"), tensors.pop("bias"), facts["strength"])
        vectors = KINDS[facts["kind"]].open(directory, tensors)
        return cls(facts["kind"], vectors, linear, tuple(facts["columns"]), tuple(facts["labels"]))


def parted(logits: numpy.ndarray, texts: list[list[Any]]) -> Any:
    """The logits of each sentence by themselves, where they are those of all words; those of texts as they are."""
    sentences = texts[0]
    if isinstance(sentences[0], str):
        return logits
    return numpy.split(logits, numpy.cumsum([len(words) for words in sentences])[:-1])


def features_of(vectors: Any, texts: list[list[Any]]) -> Any:
    """What a linear map reads: the vectors of a text, or of all words of lists; of a pair u and v also |u - v| and their product (InferSent, Conneau et al., 2017)."""
    first, *second = [vectors.vectors(column) for column in texts]
    if not second:
        return first
    (other,) = second
    if isinstance(first, numpy.ndarray):
        return numpy.hstack([first, other, abs(first - other), first * other])
    from scipy.sparse import hstack

    return hstack([first, other, abs(first - other), first.multiply(other)], format="csr")
