"""Graphs of a model that was trained for few bits (`albert-plus qat`): the same levels and ranges as in training, so that what was
trained is what runs."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal

import onnx
import onnx_ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from hf_albert_plus.compression.quantisation import Scheme
from hf_albert_plus.export.graph import save_graph
from hf_albert_plus.export.int8 import check_counts, prepared
from hf_albert_plus.export.products import count_products
from hf_albert_plus.export.trained_products import TrainedProducts, kernel_bits

Form = Literal["int8", "qdq", "nbits"]


def write_trained(
    source: Path, target: Path, *, scheme: Scheme, form: Form, keep_fp32: Collection[str] = ()
) -> dict[str, Any]:
    """Writes an fp32 graph with weights, embedding tables and the inputs of products as their scheme has them.

    Args:
        source: an fp32 graph from `export_graph`.
        form: `int8`, the products that the dynamic graph has, with steps that are known: the operator that onnxruntime makes of a
            dynamic product, its scales and its bias, and does not make by itself where the steps are constants; `qdq`, standard
            operators around a MatMul in floating point, symmetric, embedding tables in fp32; `nbits`, onnxruntime's product of packed weights.
        keep_fp32: names of products to leave as they are.

    Returns:
        Counts for the record.

    Raises:
        InvalidInput: a form that the scheme's bits do not run in.
        QuantisationError: another weight product stayed in fp32; the target is removed.
    """
    if form != "nbits":
        scheme.check_int8()
    names = count_products(onnx.load(source).graph).fp32
    model = prepared(source, keep_fp32=keep_fp32)
    writer = TrainedProducts(model, scheme)
    write: dict[Form, Callable[[onnx_ir.Node, str], None]] = {
        "int8": writer.int8, "qdq": writer.qdq, "nbits": writer.nbits,
    }  # fmt: skip
    for node in [node for node in model.graph if node.op_type == "MatMul"]:
        name = node.name or ""
        if name in scheme.products and name not in keep_fp32:
            write[form](node, name)
    for node in [node for node in model.graph if node.op_type == "Gather"]:
        writer.table(node, as_values=form == "qdq")
    RemoveUnusedNodesPass()(model)
    if form != "qdq":
        model.graph.opset_imports["com.microsoft"] = 1
    save_graph(model, target)
    counts = check_counts(target, names, keep_fp32=keep_fp32)
    bits = [scheme.grid_of(name).bits for name in names if name not in keep_fp32]
    return {
        **counts,
        "ranges": "as trained",
        "products_of_bits": {str(width): bits.count(width) for width in sorted(set(bits))},
        **({"kernel_bits": {str(width): kernel_bits(width) for width in sorted(set(bits))}} if form == "nbits" else {}),
    }


__all__ = ["Form", "write_trained"]
