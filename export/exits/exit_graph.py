"""What a graph with exits is made of, a loop or a row of segments: its nodes, what goes on from exit to exit, who leaves with what, and
the whole around it.

The graph has the model's inputs and `threshold`, which has a value of its own. It gives `logits` `[n, C]` of the exit that each row took,
and `layers` `[n]`, how many it ran. Rows that may leave do, the others go on in a smaller batch, and answers come back in the caller's
order.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from hf_albert_plus.compression.settings import Kind
from hf_albert_plus.engines.classifier_config import label_thresholds_of
from hf_albert_plus.engines.onnx_session import THRESHOLD
from hf_albert_plus.export.exits.exit_parts import RULES

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
# What goes from exit to exit: hidden states, mask, places in the caller's batch, last prediction and how often it was the same, of the
# rows that are left; logits and layers of all.
_CARRIED = ("hidden", "attention_mask", "places", "last_prediction", "same", "logits_so_far", "layers_so_far")
ANSWERS = _CARRIED[-2:]


def carried_by(kind: Kind) -> tuple[str, ...]:
    """What a rule needs of it: patience alone looks back."""
    return tuple(name for name in _CARRIED if kind == "patience" or name not in ("last_prediction", "same"))


class Nodes:
    """Nodes and constants of a graph in the making. Names get a prefix, but for those of an outer graph."""

    def __init__(self, prefix: str, *, outer: Sequence[str] = ()):
        self.prefix, self.outer = prefix, {*outer, THRESHOLD}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, numpy.ndarray] = {}

    def named(self, name: str) -> str:
        return name if name in self.outer or "/" in name else f"{self.prefix}/{name}"

    def __call__(self, operator: str, inputs: list[str], *outputs: str, **attributes: Any) -> str:
        names = [self.named(name) for name in outputs]
        inputs = [self.named(name) for name in inputs]
        self.nodes.append(helper.make_node(operator, inputs, names, name=f"{names[0]}_node", **attributes))
        return outputs[0]

    def initializers(self) -> list[onnx.TensorProto]:
        return [numpy_helper.from_array(value, self.named(name)) for name, value in self.constants.items()]


def leave(add: Nodes, config: Any, kind: Kind, *, step: str, state: str, is_last: str | None = None) -> list[str]:
    """Adds who leaves with what the exit said, and what is left of everything. Gives the names of what goes on.

    Args:
        is_last: name of what says whether this is the last exit, which all leave by.
    """
    add.constants |= {"none": numpy.asarray(0, dtype=numpy.int64), "column": numpy.asarray([1], dtype=numpy.int64)}
    RULES[kind](add, add.constants, config)
    leaves = "may_leave" if is_last is None else add("Or", ["may_leave", is_last], "leaves")
    add("Not", [leaves], "stays")
    add("Compress", ["places", leaves], "leaving", axis=0)
    add("Compress", ["said", leaves], "leaving_said", axis=0)
    answered = answer(add, "leaving", "leaving_said")
    now = {"hidden": f"{step}/next_hidden", "attention_mask": f"{step}/attention_mask", "places": "places",
           "last_prediction": "prediction", "same": "same_now"}  # fmt: skip
    kept = [name for name in carried_by(kind) if name in now]
    for name in kept:
        add("Compress", [now[name], "stays"], f"kept_{name}", axis=0)
    return [*(f"{state}/kept_{name}" for name in kept), *answered]


def answer(add: Nodes, places: str, said: str) -> list[str]:
    """Puts what was said to the rows that leave in their places: the names of the logits and layers of all."""
    add.constants["column"] = numpy.asarray([1], dtype=numpy.int64)
    add("Unsqueeze", [places, "column"], "leaving_rows")
    add("ScatterND", ["logits_so_far", "leaving_rows", said], "logits_now")
    add("Shape", [places], "leaving_shape")
    add("Expand", ["layers_run", "leaving_shape"], "leaving_layers")
    add("ScatterND", ["layers_so_far", "leaving_rows", "leaving_layers"], "layers_now")
    return [f"{add.prefix}/logits_now", f"{add.prefix}/layers_now"]


def values_of(kinds: Sequence[str], names: Sequence[str], config: Any, rows: str) -> list[onnx.ValueInfoProto]:
    """What is carried of these kinds, under these names."""
    shapes: dict[str, tuple[int, list[Any]]] = {
        "hidden": (FLOAT, [rows, "tokens", config.hidden_size]),
        "attention_mask": (INT, [rows, "tokens"]),
        "places": (INT, [rows]),
        "last_prediction": _prediction(config, rows),
        "same": (INT, [rows]),
        "logits_so_far": (FLOAT, ["batch", config.num_labels]),
        "layers_so_far": (INT, ["batch"]),
    }
    return [helper.make_tensor_value_info(name, *shapes[kind]) for kind, name in zip(kinds, names, strict=True)]


def _prediction(config: Any, rows: str) -> tuple[int, list[Any]]:
    """Type and shape of what was predicted: which of several labels are given, a number, or a class."""
    if label_thresholds_of(config):
        return INT, [rows, config.num_labels]
    return FLOAT if config.num_labels == 1 else INT, [rows]


def begin(add: Nodes, config: Any, kind: Kind) -> list[str]:
    """What is carried at first: everyone is there, and nothing was said."""
    add.constants |= {
        "classes": numpy.asarray([config.num_labels], dtype=numpy.int64),
        "zero": numpy.asarray(0, dtype=numpy.int64),
        "one": numpy.asarray(1, dtype=numpy.int64),
    }
    add.outer |= {"input_ids", "attention_mask"}
    add("Shape", ["input_ids"], "rows", start=0, end=1)
    add("Squeeze", ["rows"], "rows_number")
    add("Range", ["zero", "rows_number", "one"], "places")
    add("Concat", ["rows", "classes"], "logits_shape", axis=0)
    add("ConstantOfShape", ["logits_shape"], "logits", value=_filled(0.0))
    add("ConstantOfShape", ["rows"], "layers", value=_filled(0))
    looking_back = []
    if kind == "patience":
        # No class, no set of labels and no number that a first exit could agree with.
        kind_of_value, shape = _prediction(config, "rows")
        nothing: float = float("inf") if kind_of_value == FLOAT else -1
        add("ConstantOfShape", ["rows" if len(shape) == 1 else "logits_shape"], "prediction", value=_filled(nothing))
        add("ConstantOfShape", ["rows"], "same", value=_filled(0))
        looking_back = ["prediction", "same"]
    return ["start/hidden", "attention_mask", *map(add.named, ["places", *looking_back, "logits", "layers"])]


def whole(
    start: Path,
    around: Nodes,
    config: Any,
    *,
    parts: list[onnx.ModelProto],
    threshold: float,
    answers: tuple[str, str],
    shared: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """The whole graph: the start, what stands around the parts, and the answers under the names that callers know."""
    outer = prefixed(onnx.load(start), "start")
    inputs = list(outer.graph.input)
    inputs.insert(1, helper.make_tensor_value_info("attention_mask", INT, ["batch", "sequence"]))
    for value in inputs:
        for dim, name in zip(value.type.tensor_type.shape.dim, ("batch", "sequence"), strict=True):
            dim.ClearField("dim_value")
            dim.dim_param = name
    inputs.append(helper.make_tensor_value_info(THRESHOLD, FLOAT, []))
    outputs = [
        helper.make_tensor_value_info("logits", FLOAT, ["batch", config.num_labels]),
        helper.make_tensor_value_info("layers", INT, ["batch"]),
    ]
    ends = [
        helper.make_node("Identity", [value], [name]) for value, name in zip(answers, ("logits", "layers"), strict=True)
    ]
    own = numpy_helper.from_array(numpy.asarray(threshold, dtype=numpy.float32), THRESHOLD)
    graph = helper.make_graph(
        [*outer.graph.node, *around.nodes, *ends],
        "encoder_with_exits",
        inputs,
        outputs,
        [*outer.graph.initializer, *around.initializers(), *shared, own],
    )
    # Parts with one attention have a newer operator set than those without, whose operators are the same in both.
    imports = sorted(
        (entry for part in (outer, *parts) for entry in part.opset_import), key=lambda entry: entry.version
    )
    opsets = {entry.domain: entry for entry in imports}
    newest = max(part.ir_version for part in (outer, *parts))
    proto = helper.make_model(graph, opset_imports=list(opsets.values()), ir_version=max(newest, 8))
    set_threshold(proto, threshold)
    onnx.checker.check_model(proto)
    return proto


def set_threshold(proto: onnx.ModelProto, threshold: float) -> None:
    """Gives a graph another threshold of its own: the value that `threshold` has where nobody gives it one. It stands beside the graph
    too, where engines read it."""
    (own,) = (tensor for tensor in proto.graph.initializer if tensor.name == THRESHOLD)
    own.CopyFrom(numpy_helper.from_array(numpy.asarray(threshold, dtype=numpy.float32), THRESHOLD))
    helper.set_model_props(proto, {THRESHOLD: repr(float(threshold))})


def prefixed(proto: onnx.ModelProto, prefix: str) -> onnx.ModelProto:
    """The graph with every name of its own, but for the inputs that are the model's."""
    keep = {"input_ids", "token_type_ids", ""}
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        if value.name not in keep:
            value.name = f"{prefix}/{value.name}"
    for node in proto.graph.node:
        node.name = f"{prefix}/{node.name}"
        for names in (node.input, node.output):
            names[:] = [name if name in keep else f"{prefix}/{name}" for name in names]
    return proto


def _filled(value: float) -> onnx.TensorProto:
    return numpy_helper.from_array(
        numpy.asarray([value], dtype=numpy.float32 if isinstance(value, float) else numpy.int64)
    )
