"""Passes over an exported graph. None changes what it computes.

Storing tensors in a graph."""

import ast
from collections.abc import Collection, Sequence

import numpy
import onnx_ir
from onnx_ir.passes.common import (
    ClearMetadataAndDocStringPass,
    DeduplicateHashedInitializersPass,
    RemoveUnusedNodesPass,
)

from hf_albert_plus.compression.quantisation.scheme import ProductNames


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


def write_residuals_as_sum(model: onnx_ir.Model) -> int:
    """Writes `x + f(x)` below a LayerNormalization as `Sum`, which onnxruntime does not fuse with the norm: on a CPU its
    fused operator is slower than the two.

    Returns:
        The number of Add nodes replaced.
    """
    replaced = 0
    for node in [node for node in model.graph if node.op_type == "Add"]:
        readers = [user for user, _ in node.outputs[0].uses()]
        computed = all(value is not None and value.const_value is None for value in node.inputs)
        if computed and any(user.op_type == "LayerNormalization" for user in readers):
            node.op_type = "Sum"
            replaced += 1
    return replaced


def name_products(model: onnx_ir.Model) -> int:
    """Names every weight product after its layer and module (`product_names`): what errors and `--keep-fp32` speak of.

    Returns:
        The number of products named.
    """
    names = ProductNames()
    products = [
        node
        for node in model.graph
        if node.op_type == "MatMul"
        and any(value is not None and value.const_value is not None for value in node.inputs)
    ]
    for node in products:
        scopes = ast.literal_eval(node.metadata_props.get("pkg.torch.onnx.name_scopes") or "[]")
        modules = [scope for scope in scopes[:-1] if scope]
        if modules:
            node.name = names.next(modules)
    return len(products)


def separate_weights(model: onnx_ir.Model, products: Collection[str]) -> int:
    """Gives the named products a copy of those weights that other nodes read too, one copy for all of them: what is
    quantised for the others stays as it is for these.

    Returns:
        The number of weights copied.
    """
    copied: dict[str, onnx_ir.Value] = {}
    for node in [node for node in model.graph if node.name in products]:
        for index, weight in enumerate(node.inputs):
            if weight is None or weight.const_value is None or weight.name is None or len(weight.const_value.shape) < 2:
                continue
            if weight.name not in copied:
                if all(user.name in products for user, _ in weight.uses()):
                    continue
                copied[weight.name] = store(model, f"{weight.name}.kept", weight.const_value.numpy())
            node.replace_input_with(index, copied[weight.name])
    return len(copied)


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
        if weight is None or weight.const_value is None:
            continue
        if scaled or node.attributes.get_int("transA", False):
            continue
        if node.attributes.get_int("transB", False):
            weight = _transposed(model, weight)
        product = onnx_ir.node("MatMul", [node.inputs[0], weight], name=f"{node.name}_product")
        product.metadata_props.update(node.metadata_props)
        product.outputs[0].type, product.outputs[0].shape = node.outputs[0].type, node.outputs[0].shape
        bias = node.inputs[2] if len(node.inputs) == 3 else None  # the tracer leaves out a bias of zeros
        nodes = (
            [product] if bias is None else [product, onnx_ir.node("Add", [product.outputs[0], bias], name=node.name)]
        )
        model.graph.insert_before(node, nodes)
        was, now = node.outputs[0], nodes[-1].outputs[0]
        name = was.name
        onnx_ir.convenience.replace_all_uses_with(was, now, replace_graph_outputs=True)
        now.name, now.type, now.shape = name, was.type, was.shape
        model.graph.remove(node, safe=True)
        replaced += 1
    RemoveUnusedNodesPass()(model)
    return replaced


def _transposed(model: onnx_ir.Model, weight: onnx_ir.Value) -> onnx_ir.Value:
    """The stored transpose of a stored matrix, made at the first call."""
    if weight.const_value is None:
        raise ValueError(f"{weight.name} is not stored in the graph")
    return store(model, f"{weight.name}.T", weight.const_value.numpy().T)


def only_reader(value: onnx_ir.Value, operator: str) -> onnx_ir.Node | None:
    """The node of an operator that alone reads a value; None where another does, or several."""
    readers = [node for node, _ in value.uses()]
    return readers[0] if len(readers) == 1 and readers[0].op_type == operator else None


def store(model: onnx_ir.Model, name: str, array: numpy.ndarray) -> onnx_ir.Value:
    """The stored tensor of a name, made of the array where there is none yet."""
    if name not in model.graph.initializers:
        tensor = onnx_ir.tensor(numpy.array(array, order="C"), name=name)
        model.graph.initializers[name] = onnx_ir.Value(
            name=name, type=onnx_ir.TensorType(tensor.dtype), shape=onnx_ir.Shape(array.shape), const_value=tensor
        )
    return model.graph.initializers[name]


def store_integers(model: onnx_ir.Model, name: str, values: list[int]) -> onnx_ir.Value:
    """The stored int64 tensor of a name: shapes, axes and indices."""
    return store(model, name, numpy.asarray(values, dtype=numpy.int64))
