"""An encoder with exits as one ONNX graph. Rows that may leave do, the others go on in a smaller batch, and answers come back in the
caller's order.

Where blocks repeat from exit to exit it is a `Loop`, whose body stores them once and whose condition is the exit; else a row of
`If`s, each a segment that runs while rows are left. Both have the model's inputs and `threshold`, which has a value of its own, and
give `logits` `[n, C]` of the exit that each row took, and `layers` `[n]`, how many it ran.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from hf_albert_plus.compression.settings import Kind
from hf_albert_plus.engines.onnx_engine import THRESHOLD
from hf_albert_plus.export.exits.exit_parts import RULES, branch_weights, segments_of, steps_of

_FLOAT, _INT, _BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
# What goes from exit to exit: hidden states, mask, places in the caller's batch, last prediction and how often it was the same, of the
# rows that are left; logits and layers of all.
_CARRIED = ("hidden", "attention_mask", "places", "last_prediction", "same", "logits_so_far", "layers_so_far")
_ANSWERS = _CARRIED[-2:]
# Values that a tensor has, to be stored once for several segments: onnxruntime fuses a GELU or a mask by constants that it sees beside it.
_LEAST_SHARED = 64


def _carried(kind: Kind) -> tuple[str, ...]:
    """What a rule needs of it: patience alone looks back."""
    return tuple(name for name in _CARRIED if kind == "patience" or name not in ("last_prediction", "same"))


class _Nodes:
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


def assemble_loop(start: Path, step: Path, model: Any, *, kind: Kind, threshold: float) -> onnx.ModelProto:
    """A `Loop` over equal steps, of fp32 or quantised products."""
    steps = steps_of(model.config)
    inner = _prefixed(onnx.load(step), "step")
    add = _Nodes("exit", outer=[value.name for value in inner.graph.input])
    branches = branch_weights(model)
    # A branch says what it says within the step; the last layer has the model's classifier.
    heads = [*(exit_.classifier for exit_ in model.exits if not branches), model.classifier]
    add.constants |= {
        "weights": numpy.stack([head.weight.detach().numpy().T for head in heads]),
        "biases": numpy.stack([head.bias.detach().numpy() for head in heads]),
        "first": numpy.asarray(0, dtype=numpy.int64),
        "one_step": numpy.asarray(1, dtype=numpy.int64),
        "layers_a_step": numpy.asarray(steps.layers, dtype=numpy.int64),
        "last_step": numpy.asarray(steps.count - 1, dtype=numpy.int64),
    }
    take = _take_branch(branches)
    number = "iteration" if len(heads) > 1 else "first"
    add("Gather", ["weights", number], "weight", axis=0)
    add("Gather", ["biases", number], "bias", axis=0)
    add("MatMul", ["step/pooled", "weight"], "product")
    add("Equal", ["iteration", "last_step"], "is_last")
    if branches:
        add("Add", ["product", "bias"], "said_last")
        add("Where", ["is_last", "said_last", "step/branch_said"], "said")
    else:
        add("Add", ["product", "bias"], "said")
    add("Add", ["iteration", "one_step"], "steps_run")
    add("Mul", ["steps_run", "layers_a_step"], "layers_run")
    carried = _leave(add, model.config, kind, step="step", state="exit", is_last="is_last")
    add("Size", ["exit/kept_places"], "left")
    add("Greater", ["left", "none"], "go_on")
    names = _carried(kind)
    given = ["step/hidden", "step/attention_mask", *(f"exit/{name}" for name in names[2:])]
    body = helper.make_graph(
        [*take.nodes, *inner.graph.node, *add.nodes],
        "step",
        [
            helper.make_tensor_value_info("exit/iteration", _INT, []),
            helper.make_tensor_value_info("exit/going_on", _BOOL, []),
            *_values(names, given, model.config, "n"),
        ],
        [helper.make_tensor_value_info("exit/go_on", _BOOL, []), *_values(names, carried, model.config, "n_left")],
        [*inner.graph.initializer, *take.initializers(), *add.initializers()],
    )
    around = _Nodes("loop")
    around.constants |= {"steps": numpy.asarray(steps.count, dtype=numpy.int64), "go": numpy.asarray(True)}
    begun = _begin(around, model.config, kind)
    around("Loop", ["steps", "go", *begun], *(f"after_{name}" for name in names), body=body)
    answers = ("loop/after_logits_so_far", "loop/after_layers_so_far")
    return _whole(start, around, model.config, parts=[inner], threshold=threshold, answers=answers)


def _take_branch(weights: dict[str, torch.Tensor]) -> _Nodes:
    """The weights of a step's branch out of all; the last step, which has none, takes the one before."""
    take = _Nodes("branch")
    if not weights:
        return take
    take.constants["last"] = numpy.asarray(len(next(iter(weights.values()))) - 1, dtype=numpy.int64)
    take("Min", ["exit/iteration", "last"], "number")
    for name, stacked in weights.items():
        take.constants[name] = stacked.numpy()
        take("Gather", [name, "number"], f"step/{name}", axis=0)
    return take


def assemble_segments(
    start: Path, segments: Sequence[Path], model: Any, *, kind: Kind, threshold: float
) -> onnx.ModelProto:
    """A row of `If`s over segments, of fp32 or quantised products."""
    around = _Nodes("segments")
    state = _begin(around, model.config, kind)
    around.constants["none"] = numpy.asarray(0, dtype=numpy.int64)
    parts = [_prefixed(onnx.load(path), f"segment_{number}") for number, path in enumerate(segments)]
    shared = _take_shared(parts)
    for number, (part, (_, end)) in enumerate(zip(parts, segments_of(model.config), strict=True)):
        state = _segment(around, part, model.config, kind, state, number=number, end=end)
    answers = (state[0], state[1])
    return _whole(start, around, model.config, parts=parts, threshold=threshold, answers=answers, shared=shared)


def _take_shared(parts: Sequence[onnx.ModelProto]) -> list[onnx.TensorProto]:
    """Takes the tensors that several segments store out of them, one of each, for the graph around them, which they read."""
    uses_of: dict[tuple[Any, ...], list[tuple[onnx.ModelProto, onnx.TensorProto]]] = {}
    for part in parts:
        for tensor in part.graph.initializer:
            value = numpy_helper.to_array(tensor)
            if value.size < _LEAST_SHARED:
                continue
            key = (tensor.data_type, tuple(tensor.dims), value.tobytes())
            uses_of.setdefault(key, []).append((part, tensor))
    shared = []
    for number, uses in enumerate(uses for uses in uses_of.values() if len(uses) > 1):
        taken = onnx.TensorProto()
        taken.CopyFrom(uses[0][1])
        taken.name = f"shared/{number}"
        shared.append(taken)
        for part, tensor in uses:
            name = tensor.name
            part.graph.initializer.remove(tensor)
            for node in part.graph.node:
                node.input[:] = [taken.name if given == name else given for given in node.input]
    return shared


def _segment(
    around: _Nodes, part: onnx.ModelProto, config: Any, kind: Kind, state: list[str], *, number: int, end: int
) -> list[str]:
    """Adds one `If`: the segment where rows are left, else what came in. Gives the names of what goes on; behind the last segment only what
    was answered does."""
    prefix, is_last = f"segment_{number}", end == config.num_hidden_layers
    add = _Nodes(f"exit_{number}")
    for name, value in zip(("hidden", "attention_mask"), state[:2], strict=True):
        add.nodes.append(helper.make_node("Identity", [value], [f"{prefix}/{name}"], name=f"{prefix}/{name}_node"))
    add.nodes += part.graph.node
    for name, value in zip(_carried(kind)[2:], state[2:], strict=True):
        add("Identity", [value], name)
    add("Identity", [f"{prefix}/said"], "said")
    add.constants |= {
        "layers_run": numpy.asarray(end, dtype=numpy.int64),
        "one_step": numpy.asarray(1, dtype=numpy.int64),
    }
    carried = _answer(add, "places", "said") if is_last else _leave(add, config, kind, step=prefix, state=add.prefix)
    after = _ANSWERS if is_last else _carried(kind)
    runs = helper.make_graph(
        add.nodes,
        "segment",
        [],
        _values(after, carried, config, "n_left"),
        [*part.graph.initializer, *add.initializers()],
    )
    passed = [f"passed_{number}/{name}" for name in after]
    passes = helper.make_graph(
        [
            helper.make_node("Identity", [value], [name])
            for value, name in zip(state[-len(after) :], passed, strict=True)
        ],
        "nobody",
        [],
        _values(after, passed, config, "n_left"),
    )
    around("Size", [state[2]], f"left_{number}")
    around("Greater", [f"left_{number}", "none"], f"any_left_{number}")
    names = [f"after_{number}_{name}" for name in after]
    around("If", [f"any_left_{number}"], *names, then_branch=runs, else_branch=passes)
    return [around.named(name) for name in names]


def _leave(add: _Nodes, config: Any, kind: Kind, *, step: str, state: str, is_last: str | None = None) -> list[str]:
    """Adds who leaves with what the exit said, and what is left of everything. Gives the names of what goes on.

    Args:
        is_last: name of what says whether this is the last exit, which all leave by.
    """
    add.constants |= {"none": numpy.asarray(0, dtype=numpy.int64), "column": numpy.asarray([1], dtype=numpy.int64)}
    RULES[kind](add, add.constants, config.num_labels)
    leaves = "may_leave" if is_last is None else add("Or", ["may_leave", is_last], "leaves")
    add("Not", [leaves], "stays")
    add("Compress", ["places", leaves], "leaving", axis=0)
    add("Compress", ["said", leaves], "leaving_said", axis=0)
    answered = _answer(add, "leaving", "leaving_said")
    now = {"hidden": f"{step}/next_hidden", "attention_mask": f"{step}/attention_mask", "places": "places",
           "last_prediction": "prediction", "same": "same_now"}  # fmt: skip
    kept = [name for name in _carried(kind) if name in now]
    for name in kept:
        add("Compress", [now[name], "stays"], f"kept_{name}", axis=0)
    return [*(f"{state}/kept_{name}" for name in kept), *answered]


def _answer(add: _Nodes, places: str, said: str) -> list[str]:
    """Puts what was said to the rows that leave in their places: the names of the logits and layers of all."""
    add.constants["column"] = numpy.asarray([1], dtype=numpy.int64)
    add("Unsqueeze", [places, "column"], "leaving_rows")
    add("ScatterND", ["logits_so_far", "leaving_rows", said], "logits_now")
    add("Shape", [places], "leaving_shape")
    add("Expand", ["layers_run", "leaving_shape"], "leaving_layers")
    add("ScatterND", ["layers_so_far", "leaving_rows", "leaving_layers"], "layers_now")
    return [f"{add.prefix}/logits_now", f"{add.prefix}/layers_now"]


def _values(kinds: Sequence[str], names: Sequence[str], config: Any, rows: str) -> list[onnx.ValueInfoProto]:
    """What is carried of these kinds, under these names."""
    shapes: dict[str, tuple[int, list[Any]]] = {
        "hidden": (_FLOAT, [rows, "tokens", config.hidden_size]),
        "attention_mask": (_INT, [rows, "tokens"]),
        "places": (_INT, [rows]),
        "last_prediction": (_FLOAT if config.num_labels == 1 else _INT, [rows]),
        "same": (_INT, [rows]),
        "logits_so_far": (_FLOAT, ["batch", config.num_labels]),
        "layers_so_far": (_INT, ["batch"]),
    }
    return [helper.make_tensor_value_info(name, *shapes[kind]) for kind, name in zip(kinds, names, strict=True)]


def _begin(add: _Nodes, config: Any, kind: Kind) -> list[str]:
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
        # No class, or no number, that a first exit could agree with.
        nothing: float = float("inf") if config.num_labels == 1 else -1
        add("ConstantOfShape", ["rows"], "prediction", value=_filled(nothing))
        add("ConstantOfShape", ["rows"], "same", value=_filled(0))
        looking_back = ["prediction", "same"]
    return ["start/hidden", "attention_mask", *map(add.named, ["places", *looking_back, "logits", "layers"])]


def _whole(
    start: Path,
    around: _Nodes,
    config: Any,
    *,
    parts: list[onnx.ModelProto],
    threshold: float,
    answers: tuple[str, str],
    shared: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """The whole graph: the start, what stands around the parts, and the answers under the names that callers know."""
    outer = _prefixed(onnx.load(start), "start")
    inputs = list(outer.graph.input)
    inputs.insert(1, helper.make_tensor_value_info("attention_mask", _INT, ["batch", "sequence"]))
    for value in inputs:
        for dim, name in zip(value.type.tensor_type.shape.dim, ("batch", "sequence"), strict=True):
            dim.ClearField("dim_value")
            dim.dim_param = name
    inputs.append(helper.make_tensor_value_info(THRESHOLD, _FLOAT, []))
    outputs = [
        helper.make_tensor_value_info("logits", _FLOAT, ["batch", config.num_labels]),
        helper.make_tensor_value_info("layers", _INT, ["batch"]),
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
    opsets = {entry.domain: entry for part in (outer, *parts) for entry in part.opset_import}
    proto = helper.make_model(graph, opset_imports=list(opsets.values()), ir_version=max(outer.ir_version, 8))
    onnx.checker.check_model(proto)
    return proto


def _prefixed(proto: onnx.ModelProto, prefix: str) -> onnx.ModelProto:
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
