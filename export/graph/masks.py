"""The padding mask as `[batch, 1, 1, sequence]`: tracing makes it `[batch, 1, sequence, sequence]` by way of a gather."""

import numpy
import onnx_ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from hf_albert_plus.export.graph.rewrites import store, store_integers


def narrow_mask(model: onnx_ir.Model) -> int:
    """Computes the additive mask from `attention_mask` directly: 0 where it is 1, the lowest float where it is 0.

    Returns:
        1 where the traced mask was found and replaced, else 0.
    """
    mask = next((value for value in model.graph.inputs if value.name == "attention_mask"), None)
    traced = _traced_mask(model)
    if mask is None or traced is None or mask.shape is None or len(mask.shape) not in (2, 3):
        return 0
    additive = traced.outputs[0]
    assert additive.shape is not None
    kept, padded = (
        _scalar(model, traced.inputs[index], name) for index, name in ((1, "mask_kept"), (2, "mask_padded"))
    )
    axes = store_integers(model, "mask_axes", [1, 2])
    rows = mask if len(mask.shape) == 2 else _without_choices(model, mask, traced)
    boolean = onnx_ir.node("Cast", [rows], attributes={"to": onnx_ir.DataType.BOOL}, name="node_mask_bool")
    spread = onnx_ir.node("Unsqueeze", [boolean.outputs[0], axes], name="node_mask_spread")
    chosen = onnx_ir.node("Where", [spread.outputs[0], kept, padded], name="node_mask")
    for node, name, dtype in (
        (boolean, "mask_bool", onnx_ir.DataType.BOOL),
        (spread, "mask_spread", onnx_ir.DataType.BOOL),
        (chosen, "mask", onnx_ir.DataType.FLOAT),
    ):
        node.outputs[0].name, node.outputs[0].type = name, onnx_ir.TensorType(dtype)
        batch, length = additive.shape[0], mask.shape[-1]
        node.outputs[0].shape = onnx_ir.Shape([batch, length] if node is boolean else [batch, 1, 1, length])
    model.graph.insert_before(traced, [boolean, spread, chosen])
    onnx_ir.convenience.replace_all_uses_with(additive, chosen.outputs[0])
    RemoveUnusedNodesPass()(model)
    return 1


def _without_choices(model: onnx_ir.Model, mask: onnx_ir.Value, before: onnx_ir.Node) -> onnx_ir.Value:
    """`[batch, choices, sequence]` -> `[batch * choices, sequence]`."""
    rest = store_integers(model, "mask_rows", [-1])
    length = onnx_ir.node("Shape", [mask], attributes={"start": 2}, name="node_mask_length")
    target = onnx_ir.node("Concat", [rest, length.outputs[0]], attributes={"axis": 0}, name="node_mask_target")
    rows = onnx_ir.node("Reshape", [mask, target.outputs[0]], name="node_mask_rows")
    for node, name in ((length, "mask_length"), (target, "mask_target"), (rows, "mask_flat")):
        node.outputs[0].name, node.outputs[0].type = name, onnx_ir.TensorType(onnx_ir.DataType.INT64)
    model.graph.insert_before(before, [length, target, rows])
    return rows.outputs[0]


def _traced_mask(model: onnx_ir.Model) -> onnx_ir.Node | None:
    """The one Where between two constants, of rank 4, that scores are added to."""
    computing = [
        node
        for node in model.graph
        if node.op_type == "Where"
        and node.outputs[0].shape is not None
        and len(node.outputs[0].shape) == 4
        and all(_uniform(value) is not None for value in node.inputs[1:])
        and all(user.op_type == "Add" for user, _ in node.outputs[0].uses())
    ]
    return computing[0] if len(computing) == 1 else None


def _uniform(value: onnx_ir.Value | None) -> float | None:
    """The one number that a constant, or a constant spread out over a shape, holds."""
    while value is not None and value.const_value is None and (node := value.producer()) is not None:
        if node.op_type not in {"Expand", "Identity", "ConstantOfShape"}:
            return None
        if node.op_type == "ConstantOfShape":
            filling = node.attributes.get("value")
            return 0.0 if filling is None else float(filling.as_tensor().numpy().ravel()[0])
        value = node.inputs[0]
    if value is None or value.const_value is None:
        return None
    numbers = numpy.unique(value.const_value.numpy())
    return float(numbers[0]) if numbers.size == 1 else None


def _scalar(model: onnx_ir.Model, value: onnx_ir.Value | None, name: str) -> onnx_ir.Value:
    number = _uniform(value)
    assert number is not None
    return store(model, name, numpy.asarray(number, dtype=numpy.float32))
