"""An encoder with exits as a row of ONNX `If`s, each a segment that runs while rows are left."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import onnx
from onnx import helper, numpy_helper

from hf_albert_plus.compression.settings import Kind
from hf_albert_plus.export.exits.exit_graph import (
    ANSWERS,
    Nodes,
    answer,
    begin,
    carried_by,
    leave,
    prefixed,
    values_of,
    whole,
)
from hf_albert_plus.export.exits.exit_parts import segments_of

# Values that a tensor has, to be stored once for several segments: onnxruntime fuses a GELU or a mask by constants that it sees beside it.
_LEAST_SHARED = 64


def assemble_segments(
    start: Path, segments: Sequence[Path], model: Any, *, kind: Kind, threshold: float
) -> onnx.ModelProto:
    """A row of `If`s over segments, of fp32 or quantised products."""
    around = Nodes("segments")
    state = begin(around, model.config, kind)
    around.constants["none"] = numpy.asarray(0, dtype=numpy.int64)
    parts = [prefixed(onnx.load(path), f"segment_{number}") for number, path in enumerate(segments)]
    shared = _take_shared(parts)
    for number, (part, (_, end)) in enumerate(zip(parts, segments_of(model.config), strict=True)):
        state = _segment(around, part, model.config, kind, state, number=number, end=end)
    answers = (state[0], state[1])
    return whole(start, around, model.config, parts=parts, threshold=threshold, answers=answers, shared=shared)


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
    around: Nodes, part: onnx.ModelProto, config: Any, kind: Kind, state: list[str], *, number: int, end: int
) -> list[str]:
    """Adds one `If`: the segment where rows are left, else what came in. Gives the names of what goes on; behind the last segment only what
    was answered does."""
    prefix, is_last = f"segment_{number}", end == config.num_hidden_layers
    add = Nodes(f"exit_{number}")
    for name, value in zip(("hidden", "attention_mask"), state[:2], strict=True):
        add.nodes.append(helper.make_node("Identity", [value], [f"{prefix}/{name}"], name=f"{prefix}/{name}_node"))
    add.nodes += part.graph.node
    for name, value in zip(carried_by(kind)[2:], state[2:], strict=True):
        add("Identity", [value], name)
    add("Identity", [f"{prefix}/said"], "said")
    add.constants |= {
        "layers_run": numpy.asarray(end, dtype=numpy.int64),
        "one_step": numpy.asarray(1, dtype=numpy.int64),
    }
    carried = answer(add, "places", "said") if is_last else leave(add, config, kind, step=prefix, state=add.prefix)
    after = ANSWERS if is_last else carried_by(kind)
    runs = helper.make_graph(
        add.nodes,
        "segment",
        [],
        values_of(after, carried, config, "n_left"),
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
        values_of(after, passed, config, "n_left"),
    )
    around("Size", [state[2]], f"left_{number}")
    around("Greater", [f"left_{number}", "none"], f"any_left_{number}")
    names = [f"after_{number}_{name}" for name in after]
    around("If", [f"any_left_{number}"], *names, then_branch=runs, else_branch=passes)
    return [around.named(name) for name in names]
