"""What a classifier of texts takes and gives: texts, the facts that a caller may know of it, logits, and scores."""

from dataclasses import dataclass

import numpy

# A text, or a pair of them that are read together.
Text = str | tuple[str, str]


@dataclass(frozen=True)
class ClassifierFacts:
    """What a caller may know of a classifier.

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
class TextAnswers:
    """What a classifier says of texts, in their order.

    Attributes:
        logits: `[n, C]`, fp32.
        tokens: how many each text was computed with.
        truncated: which texts were cut.
    """

    logits: numpy.ndarray
    tokens: list[int]
    truncated: list[bool]


def scores_of(logits: numpy.ndarray, problem_type: str) -> numpy.ndarray:
    """Probabilities of the labels, each by itself where there may be several; or the values of a regression, `[n, C]`."""
    if problem_type == "regression":
        return logits
    wide = logits.astype(numpy.float64)
    if problem_type.startswith("multi"):
        return 1 / (1 + numpy.exp(-wide))
    powers = numpy.exp(wide - wide.max(axis=-1, keepdims=True))
    probabilities: numpy.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities
