"""What is asked of a model, what it says, and what may be known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy

# A text, or a pair of them.
Text = str | tuple[str, str]


@dataclass(frozen=True)
class Facts:
    """What a client may know of a model.

    Attributes:
        inputs: names of the tensors that it reads.
        max_length: tokens of a text that it takes.
        problem_type: `single_label_classification`, `multi_label_classification`, or `regression`, whose value is no score of a label.
    """

    labels: tuple[str, ...]
    inputs: tuple[str, ...]
    max_length: int
    runtime: str
    problem_type: str


@dataclass(frozen=True)
class Answers:
    """What a model says of texts, in their order.

    Attributes:
        logits: `[n, C]`, fp32.
        tokens: that each text was computed with.
        truncated: which were cut.
    """

    logits: numpy.ndarray
    tokens: list[int]
    truncated: list[bool]


class Model(Protocol):
    """A model in this process or in another one."""

    facts: Facts

    async def classify(self, texts: Sequence[Text], *, truncate: bool) -> Answers: ...

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> Answers: ...


def scores_of(logits: numpy.ndarray, problem_type: str) -> numpy.ndarray:
    """Probabilities of the labels, each by itself where there may be several; or the values of a regression, `[n, C]`."""
    if problem_type == "regression":
        return logits
    wide = logits.astype(numpy.float64)
    if problem_type.startswith("multi"):
        return 1 / (1 + numpy.exp(-wide))
    powers = numpy.exp(wide - wide.max(axis=-1, keepdims=True))
    found: numpy.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return found


__all__ = ["Answers", "Facts", "Model", "Text", "scores_of"]
