"""Passes over an exported graph. None changes what it computes."""

from collections.abc import Sequence

import onnx_ir
from onnx_ir.passes.common import (
    ClearMetadataAndDocStringPass,
    DeduplicateHashedInitializersPass,
    RemoveUnusedNodesPass,
)


def fold_weight_transposes(model: onnx_ir.Model, *, copy_tied: bool = False) -> int:
    """Stores `Wᵀ` instead of `W` where a weight is only read through `Transpose`, once however many layers read it.

    Args:
        copy_tied: also where a weight is read directly too (an embedding that is the decoder's weight as well), which
            stores it twice. Otherwise such a weight keeps its Transpose.

    Returns:
        The number of Transpose nodes removed.
    """
    removed = 0
    for weight in list(model.graph.initializers.values()):
        uses = [node for node, _ in weight.uses()]
        readers = [node for node in uses if node.op_type == "Transpose"]
        if not readers or weight.const_value is None or (len(readers) < len(uses) and not copy_tied):
            continue
        permutations = {tuple(node.attributes.get_ints("perm", [1, 0])) for node in readers}
        if permutations != {(1, 0)}:
            continue
        transposed = _transposed(model, weight)
        for node in readers:
            onnx_ir.convenience.replace_all_uses_with(node.outputs[0], transposed)
            model.graph.remove(node, safe=True)
            removed += 1
    RemoveUnusedNodesPass()(model)
    return removed


def deduplicate_initializers(model: onnx_ir.Model) -> int:
    """Stores every distinct tensor once: tracing folds a shared weight anew for each layer that reads it.

    Returns:
        The number of initialisers removed.
    """
    before = len(model.graph.initializers)
    for value in model.graph.initializers.values():
        # Folded transposes are views, which the pass cannot hash.
        if value.const_value is not None:
            value.const_value = onnx_ir.tensor(value.const_value.numpy().copy(order="C"), name=value.name)
    DeduplicateHashedInitializersPass(size_limit=2**62)(model)
    RemoveUnusedNodesPass()(model)
    return before - len(model.graph.initializers)


def name_axes(model: onnx_ir.Model, names: Sequence[str]) -> None:
    """Gives the dynamic axes of inputs and outputs the given names, in the order in which inputs have them."""
    symbols: dict[str, str] = {}
    for value in (*model.graph.inputs, *model.graph.outputs):
        dims = []
        for dim in value.shape or ():
            if isinstance(dim, onnx_ir.SymbolicDim):
                key = str(dim.value)
                if key not in symbols and len(symbols) < len(names):
                    symbols[key] = names[len(symbols)]
                dim = onnx_ir.SymbolicDim(symbols.get(key, key))
            dims.append(dim)
        value.shape = onnx_ir.Shape(dims)


def clear_metadata(model: onnx_ir.Model) -> None:
    """Drops what the tracer noted of itself: stack traces and paths of the machine that exported."""
    ClearMetadataAndDocStringPass()(model)


def split_gemm(model: onnx_ir.Model) -> int:
    """Writes `Gemm(x, W, b)` as `MatMul` and `Add`, with the weight transposed where Gemm does so, so that every weight
    product is a MatMul with its weight directly below it.

    Returns:
        The number of Gemm nodes replaced; those with a scale or a transposed left side stay.
    """
    replaced = 0
    for node in [node for node in model.graph if node.op_type == "Gemm"]:
        weight = node.inputs[1]
        scaled = any(node.attributes.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta"))
        if weight is None or weight.const_value is None or len(node.inputs) != 3:
            continue
        if scaled or node.attributes.get_int("transA", False):
            continue
        if node.attributes.get_int("transB", False):
            weight = _transposed(model, weight)
        product = onnx_ir.node("MatMul", [node.inputs[0], weight], name=f"{node.name}_product")
        total = onnx_ir.node("Add", [product.outputs[0], node.inputs[2]], name=node.name)
        model.graph.insert_before(node, [product, total])
        name = node.outputs[0].name
        onnx_ir.convenience.replace_all_uses_with(node.outputs[0], total.outputs[0], replace_graph_outputs=True)
        total.outputs[0].name, total.outputs[0].type, total.outputs[0].shape = (
            name,
            node.outputs[0].type,
            node.outputs[0].shape,
        )
        model.graph.remove(node, safe=True)
        replaced += 1
    RemoveUnusedNodesPass()(model)
    return replaced


def _transposed(model: onnx_ir.Model, weight: onnx_ir.Value) -> onnx_ir.Value:
    """The stored transpose of a stored matrix, made at the first call."""
    name = f"{weight.name}.T"
    if weight.const_value is None:
        raise ValueError(f"{weight.name} is not stored in the graph")
    if name not in model.graph.initializers:
        tensor = onnx_ir.tensor(weight.const_value.numpy().T.copy(order="C"), name=name)
        shape = onnx_ir.Shape(tensor.numpy().shape)
        value = onnx_ir.Value(name=name, type=weight.type, shape=shape, const_value=tensor)
        model.graph.initializers[name] = value
    return model.graph.initializers[name]


__all__ = ["clear_metadata", "deduplicate_initializers", "fold_weight_transposes", "name_axes", "split_gemm"]
