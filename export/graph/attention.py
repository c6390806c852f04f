"""Attention as one operator: scores, mask, softmax and context in ONNX's own `Attention`, of operator set 23.

onnxruntime's kernel reads queries, keys and values as the products leave them, so that nothing is transposed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from hf_albert_plus.export.graph.rewrites import only_reader, store_integers

_OPERATOR_SET, _IR_VERSION = 23, 11


@dataclass(frozen=True)
class _Heads:
    """A value `[batch, sequence, heads * size]` that a Reshape and a Transpose split into heads."""

    value: onnx_ir.Value
    count: int
    length: onnx_ir.Value


@dataclass(frozen=True)
class _Core:
    """One attention, from queries, keys and values to the Reshape that puts its heads together.

    Attributes:
        mask: what is added to the scaled scores.
    """

    query: _Heads
    key: _Heads
    value: _Heads
    scale: float
    mask: onnx_ir.Value | None
    context: onnx_ir.Node


def fuse_attention(model: onnx_ir.Model) -> int:
    """Puts `Attention` in the place of every attention that is written out, and raises the operator set to 23 for it.

    Returns:
        The number of attentions replaced. One whose number of heads the graph does not tell is left alone.
    """
    cores = [core for node in model.graph if node.op_type == "Softmax" and (core := _core(node)) is not None]
    masks: dict[tuple[onnx_ir.Value, onnx_ir.Value], onnx_ir.Value] = {}
    for core in cores:
        inputs = [core.query.value, core.key.value, core.value.value]
        if core.mask is not None:
            place = (core.mask, core.query.length)
            if place not in masks:
                masks[place] = _spread(model, core.mask, core.query.length, before=core.context)
            inputs.append(masks[place])
        node = onnx_ir.node(
            "Attention",
            inputs,
            attributes={"q_num_heads": core.query.count, "kv_num_heads": core.key.count, "scale": core.scale},
            name=f"{core.context.name}_attention",
        )
        before, after = core.context.outputs[0], node.outputs[0]
        after.name, after.type, after.shape = f"{before.name}_attention", before.type, before.shape
        model.graph.insert_before(core.context, node)
        onnx_ir.convenience.replace_all_uses_with(before, after)
    if cores:
        RemoveUnusedNodesPass()(model)
        model.graph.opset_imports[""] = max(model.graph.opset_imports[""], _OPERATOR_SET)
        model.ir_version = max(model.ir_version, _IR_VERSION)
    return len(cores)


def _core(softmax: onnx_ir.Node) -> _Core | None:
    """The attention around a Softmax over its last axis."""
    context = only_reader(softmax.outputs[0], "MatMul")
    if (
        context is None
        or context.inputs[0] is not softmax.outputs[0]
        or softmax.attributes.get_int("axis", -1) not in (-1, 3)
    ):
        return None
    together = only_reader(context.outputs[0], "Transpose")
    merged = None if together is None else only_reader(together.outputs[0], "Reshape")
    if together is None or merged is None or _permutation(together) != [0, 2, 1, 3] or len(_dims(merged)) != 3:
        return None
    scaled, mask = _without_mask(softmax.inputs[0])
    scores, scale = _without_scale(scaled)
    product = _producer(scores, "MatMul")
    if product is None:
        return None
    query, key = _heads(product.inputs[0], [0, 2, 1, 3]), _heads(product.inputs[1], [0, 2, 3, 1])
    value = _heads(context.inputs[1], [0, 2, 1, 3])
    if query is None or key is None or value is None or len({query.count, key.count, value.count}) > 1:
        return None
    return _Core(query=query, key=key, value=value, scale=scale, mask=mask, context=merged)


def _without_mask(scores: onnx_ir.Value | None) -> tuple[onnx_ir.Value | None, onnx_ir.Value | None]:
    """Scores and what is added to them."""
    added = _producer(scores, "Add")
    if added is None:
        return scores, None
    first, second = added.inputs
    return (first, second) if _producer(_without_scale(first)[0], "MatMul") is not None else (second, first)


def _without_scale(scores: onnx_ir.Value | None) -> tuple[onnx_ir.Value | None, float]:
    """Scores and the number that multiplies them."""
    for operator in ("Mul", "Div"):
        node = _producer(scores, operator)
        constant = None if node is None or node.inputs[1] is None else node.inputs[1].const_value
        if node is not None and constant is not None and constant.numpy().size == 1:
            number = float(constant.numpy().item())
            return node.inputs[0], number if operator == "Mul" else 1 / number
    return scores, 1.0


def _heads(value: onnx_ir.Value | None, permutation: list[int]) -> _Heads | None:
    transposed = _producer(value, "Transpose")
    split = None if transposed is None else _producer(transposed.inputs[0], "Reshape")
    if transposed is None or split is None or _permutation(transposed) != permutation:
        return None
    whole, dims = split.inputs[0], _dims(split)
    size = _number(dims[3]) if len(dims) == 4 else None
    width = None if whole is None else _width(whole)
    if whole is None or size is None or width is None or size < 1 or width % size:
        return None
    count = width // size
    if _number(dims[2]) not in (-1, count) or (whole.shape is not None and len(whole.shape) != 3):
        return None
    return _Heads(value=whole, count=count, length=dims[1])


def _dims(reshape: onnx_ir.Node) -> Sequence[onnx_ir.Value]:
    """The parts that a Reshape's target is put together from, one a dimension."""
    target = _producer(reshape.inputs[1], "Concat")
    return () if target is None else [value for value in target.inputs if value is not None]


def _number(value: onnx_ir.Value) -> int | None:
    stored = value.const_value
    return None if stored is None or stored.numpy().size != 1 else int(stored.numpy().item())


def _width(value: onnx_ir.Value) -> int | None:
    """The length of the last axis of a weight product, with its bias or without."""
    added = _producer(value, "Add")
    for candidate in [value] if added is None else added.inputs:
        product = _producer(candidate, "MatMul")
        weight = None if product is None or product.inputs[1] is None else product.inputs[1].const_value
        if weight is not None:
            return int(weight.numpy().shape[-1])
    return None


def _spread(model: onnx_ir.Model, mask: onnx_ir.Value, length: onnx_ir.Value, *, before: onnx_ir.Node) -> onnx_ir.Value:
    """A mask with a row for every query, which onnxruntime's `Attention` asks for. A sum with biases of distances has them."""
    if _number(length) == 1 or _producer(mask, "Add") is not None:
        return mask
    one = store_integers(model, "mask_one", [1])
    target = onnx_ir.node("Concat", [one, one, length, one], attributes={"axis": 0}, name="node_mask_queries")
    spread = onnx_ir.node("Expand", [mask, target.outputs[0]], name="node_mask_of_queries")
    target.outputs[0].name, target.outputs[0].type = "mask_queries", onnx_ir.TensorType(onnx_ir.DataType.INT64)
    spread.outputs[0].name, spread.outputs[0].type = "mask_of_queries", mask.type
    model.graph.insert_before(before, [target, spread])
    return spread.outputs[0]


def _producer(value: onnx_ir.Value | None, operator: str) -> onnx_ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == operator and node.domain == "" else None


def _permutation(transpose: onnx_ir.Node) -> list[int]:
    return list(transpose.attributes.get_ints("perm", [3, 2, 1, 0]))
