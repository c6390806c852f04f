"""When a row leaves, as ONNX operators: from what an exit says and `threshold` to `may_leave`, `prediction` and `same_now`."""

from collections.abc import Callable

import numpy
from onnx import TensorProto

from hf_albert_plus.compression.exits.criteria import TOLERANCE, Kind

# The graph input that a caller may give another value.
THRESHOLD = "threshold"

# Adds a node: operator, inputs, output, attributes -> the output's name.
Add = Callable[..., str]


def _predicts(node: Add) -> None:
    node("ArgMax", ["said"], "prediction", axis=-1, keepdims=0)


def _entropy(node: Add, constants: dict[str, numpy.ndarray], classes: int) -> None:
    constants["log_classes"] = numpy.asarray(numpy.log(classes), dtype=numpy.float32)
    constants["class_axis"] = numpy.asarray([-1], dtype=numpy.int64)
    node("LogSoftmax", ["said"], "log_probability", axis=-1)
    node("Exp", ["log_probability"], "probability")
    node("Mul", ["probability", "log_probability"], "terms")
    node("ReduceSum", ["terms", "class_axis"], "negative_entropy", keepdims=0)
    node("Neg", ["negative_entropy"], "entropy")
    node("Div", ["entropy", "log_classes"], "normalised_entropy")
    node("LessOrEqual", ["normalised_entropy", THRESHOLD], "may_leave")


def _confidence(node: Add, constants: dict[str, numpy.ndarray], classes: int) -> None:
    constants["class_axis"] = numpy.asarray([-1], dtype=numpy.int64)
    node("Softmax", ["said"], "probability", axis=-1)
    node("ReduceMax", ["probability", "class_axis"], "largest", keepdims=0)
    node("GreaterOrEqual", ["largest", THRESHOLD], "may_leave")


def _patience(node: Add, constants: dict[str, numpy.ndarray], classes: int) -> None:
    if classes == 1:
        constants["class_axis"] = numpy.asarray([-1], dtype=numpy.int64)
        constants["tolerance"] = numpy.asarray(TOLERANCE, dtype=numpy.float32)
        node("Squeeze", ["said", "class_axis"], "prediction")
        node("Sub", ["prediction", "last_prediction"], "change")
        node("Abs", ["change"], "distance")
        node("Less", ["distance", "tolerance"], "agrees")
    else:
        _predicts(node)
        node("Equal", ["prediction", "last_prediction"], "agrees")
    node("Add", ["same", "one_step"], "one_more")
    node("Where", ["agrees", "one_more", "none"], "same_now")
    node("Cast", ["same_now"], "same_count", to=TensorProto.FLOAT)
    node("GreaterOrEqual", ["same_count", THRESHOLD], "may_leave")


RULES: dict[Kind, Callable[[Add, dict[str, numpy.ndarray], int], None]] = {
    "entropy": _entropy,
    "confidence": _confidence,
    "patience": _patience,
}


__all__ = ["RULES", "THRESHOLD", "Add"]
