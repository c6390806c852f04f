"""fp16 and bf16 graphs for GPUs: products, activations and weights in half precision, norms and softmax in fp32.

The types stand in the graph itself, as strongly typed runtimes (TensorRT 11, onnxruntime's CUDA provider) read them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import ml_dtypes
import numpy
import onnx
import onnx_ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from hf_albert_plus.engines.parity import Tensors, onnx_runner
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.graph.gelu import fuse_gelu
from hf_albert_plus.export.graph.rewrites import store

HalfType = Literal["fp16", "bf16"]
_TYPES = {
    "fp16": (onnx_ir.DataType.FLOAT16, numpy.dtype(numpy.float16)),
    "bf16": (onnx_ir.DataType.BFLOAT16, numpy.dtype(ml_dtypes.bfloat16)),
}
_IN_FP32 = {"LayerNormalization", "Softmax"}
# What lies between the attention scores and their softmax: scale and mask, whose lowest value is fp32's.
_SCORES = {"Add", "Div", "Expand", "Mul", "Where"}


@dataclass(frozen=True)
class HalfNodes:
    """How many nodes compute in half precision and in fp32, and the casts between them."""

    half_nodes: int
    fp32_nodes: int
    casts: int


def to_half(model: onnx_ir.Model, half: HalfType) -> HalfNodes:
    """Converts an fp32 graph in place. Inputs stay int64 and outputs fp32.

    Raises:
        InvalidInput: a weight exceeds what fp16 can hold.
    """
    dtype, numpy_type = _TYPES[half]
    fuse_gelu(model)  # its cubes overflow fp16 where the function itself does not
    in_fp32 = _nodes_in_fp32(model)
    halves = {
        value
        for node in model.graph
        if node not in in_fp32
        for value in node.outputs
        if value.dtype == onnx_ir.DataType.FLOAT
    }
    for node in model.graph:
        if node.op_type == "Cast" and node.outputs[0] in halves:
            node.attributes["to"] = onnx_ir.AttrInt64("to", int(dtype))
    casts: dict[tuple[onnx_ir.Value, bool], onnx_ir.Value] = {}
    for node in list(model.graph):
        wants_half = node not in in_fp32
        if wants_half and not any(value in halves for value in node.outputs) and not _reads_float(node):
            continue
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype != onnx_ir.DataType.FLOAT or (value in halves) == wants_half:
                continue
            if value.const_value is not None:
                replacement = _stored_in_half(model, value, numpy_type, half) if wants_half else value
            else:
                replacement = casts.get((value, wants_half)) or _cast(model, value, dtype if wants_half else None)
                casts[value, wants_half] = replacement
            node.replace_input_with(index, replacement)
    for index, output in enumerate(model.graph.outputs):
        if output in halves:
            name, output.name = output.name, f"{output.name}_{half}"
            widened = _cast(model, output, None)
            widened.name = name
            model.graph.outputs[index] = widened
    for value in halves:
        value.dtype = dtype
    RemoveUnusedNodesPass()(model)
    return _count_nodes(model, dtype)


def _count_nodes(model: onnx_ir.Model, dtype: onnx_ir.DataType) -> HalfNodes:
    half_nodes = fp32_nodes = casts = 0
    for node in model.graph:
        if node.op_type == "Cast" and node.name and node.name.startswith("cast_"):
            casts += 1
        elif any(value.dtype == dtype for value in node.outputs):
            half_nodes += 1
        elif any(value.dtype == onnx_ir.DataType.FLOAT for value in node.outputs):
            fp32_nodes += 1
    return HalfNodes(half_nodes, fp32_nodes, casts)


def load_typed(path: Path) -> onnx_ir.Model:
    """A graph with the type of every value inferred."""
    return onnx_ir.from_proto(onnx.shape_inference.infer_shapes(onnx.load(path)))


def check_range(source: Path, half: HalfType, inputs: list[Tensors]) -> float:
    """The largest absolute value that any tensor in half precision takes on the given inputs, computed in fp32.

    Args:
        source: the fp32 graph.

    Raises:
        InvalidInput: a tensor exceeds fp16's largest number, or is not finite.
    """
    model = load_typed(source)
    fuse_gelu(model)
    in_fp32 = _nodes_in_fp32(model)
    watched = [
        value
        for node in model.graph
        if node not in in_fp32
        for value in node.outputs
        if value.dtype == onnx_ir.DataType.FLOAT
    ]
    outputs = list(model.graph.outputs)
    for value in watched:
        if value not in outputs:
            model.graph.outputs.append(value)
    run = onnx_runner(onnx_ir.to_proto(model).SerializeToString())
    names = [value.name for value in watched if value.name]
    limit = float(numpy.finfo(numpy.float16).max) if half == "fp16" else float(numpy.finfo(numpy.float32).max)
    largest = 0.0
    for batch in inputs:
        values = run(batch)
        for name in names:
            peak = float(numpy.abs(values[name].numpy()).max(initial=0.0))
            if not peak <= limit:
                raise InvalidInput(
                    f"values in {half} must not exceed {limit:g}",
                    got=f"{peak:g} in {name}",
                    repair="export onnx-bf16 instead, which has the range of fp32"
                    if half == "fp16"
                    else "check the weights",
                )
            largest = max(largest, peak)
    return largest


def emulate(model: onnx_ir.Model) -> None:
    """Rewrites a half precision graph so that a processor without such products computes it: each operator in fp32, its
    result rounded to the type that the graph gives it."""
    halves = {dtype for dtype, _ in _TYPES.values()}
    widened: dict[onnx_ir.Value, onnx_ir.Value] = {}
    for node in list(model.graph):
        if node.op_type == "Cast":
            continue
        for index, value in enumerate(node.inputs):
            if value is not None and value.dtype in halves:
                widened[value] = widened.get(value) or _cast(model, value, None)
                node.replace_input_with(index, widened[value])
        for value in node.outputs:
            if value.dtype in halves:
                dtype = value.dtype
                assert dtype is not None
                value.dtype = onnx_ir.DataType.FLOAT
                rounded = _cast(model, value, dtype)
                for user, index in list(value.uses()):
                    if user is not rounded.producer():
                        user.replace_input_with(index, rounded)


def _nodes_in_fp32(model: onnx_ir.Model) -> set[onnx_ir.Node]:
    """Norms and softmax, the arithmetic of scores below a softmax, and whatever only decides indices or truth values, as
    relative positions do."""
    kept = {node for node in model.graph if node.op_type in _IN_FP32}
    indices: set[onnx_ir.Node] = set()
    for node in reversed(list(model.graph)):
        users = [user for value in node.outputs for user, _ in value.uses()]
        if _gives_float(node) and users and all(user in indices or not _gives_float(user) for user in users):
            indices.add(node)
        if (
            node.op_type in _SCORES
            and users
            and all(user in kept and user.op_type != "LayerNormalization" for user in users)
        ):
            kept.add(node)
    return kept | indices


def _gives_float(node: onnx_ir.Node) -> bool:
    return any(value.dtype == onnx_ir.DataType.FLOAT for value in node.outputs)


def _reads_float(node: onnx_ir.Node) -> bool:
    return any(value is not None and value.dtype == onnx_ir.DataType.FLOAT for value in node.inputs)


def _stored_in_half(
    model: onnx_ir.Model, value: onnx_ir.Value, numpy_type: numpy.dtype, half: HalfType
) -> onnx_ir.Value:
    """The initialiser in half precision, stored once however many nodes read it."""
    name = f"{value.name}_{half}"
    if name in model.graph.initializers:
        return model.graph.initializers[name]
    assert value.const_value is not None
    array = value.const_value.numpy()
    limit = float(ml_dtypes.finfo(numpy_type).max)
    if not numpy.abs(array).max(initial=0.0) <= limit:
        raise InvalidInput(
            f"weights in {half} must not exceed {limit:g}",
            got=f"{numpy.abs(array).max():g} in {value.name}",
            repair="export onnx-bf16 instead" if half == "fp16" else "check the weights",
        )
    return store(model, name, array.astype(numpy_type))


def _cast(model: onnx_ir.Model, value: onnx_ir.Value, dtype: onnx_ir.DataType | None) -> onnx_ir.Value:
    """A Cast behind a value, to fp32 where no type is given."""
    kind = dtype or onnx_ir.DataType.FLOAT
    name = f"{value.name}_to_{kind.name.lower()}"
    node = onnx_ir.node("Cast", [value], attributes={"to": kind}, name=f"cast_{name}")
    node.outputs[0].name, node.outputs[0].shape = name, value.shape
    node.outputs[0].type = onnx_ir.TensorType(kind)
    producer = value.producer()
    if producer is None:
        model.graph.insert_before(model.graph[0], node)
    else:
        model.graph.insert_after(producer, node)
    return node.outputs[0]
