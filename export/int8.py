"""Dynamic int8: weights quantised per channel and stored once, activations at run time, every product counted."""

import logging
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from hf_albert_plus.errors import QuantisationError
from hf_albert_plus.export.graph import save_graph
from hf_albert_plus.export.passes import fold_weight_transposes
from hf_albert_plus.export.products import count_products, float_tables


def quantise(source: Path, target: Path) -> dict[str, Any]:
    """Quantises the weight products and embedding tables of an fp32 graph with onnxruntime.

    Args:
        source: an fp32 graph from `export_graph`: its weights lie directly under their products, so that the quantiser,
            which passes over anything behind a Transpose or Identity in silence, sees them all.

    Returns:
        Counts for the record: weight products in all and quantised, embedding tables left in float.

    Raises:
        QuantisationError: a weight product stayed in fp32; the target is removed.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    total = count_products(onnx.load(source).graph).total
    target.parent.mkdir(parents=True, exist_ok=True)
    # A decoder that is the embedding table needs a copy of its own: one is read by rows, one by columns, in int8 both.
    graph_model = onnx_ir.load(source)
    fold_weight_transposes(graph_model, copy_tied=True)
    folded = target.with_suffix(".folded.onnx")
    save_graph(graph_model, folded)
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # the quantiser recommends its own pre-processing on the root logger at every call
    try:
        quantize_dynamic(
            folded, target, op_types_to_quantize=["MatMul", "Gather"], per_channel=True, weight_type=QuantType.QInt8
        )
    finally:
        root.setLevel(level)
        folded.unlink()
    graph = onnx.load(target).graph
    products = count_products(graph)
    if products.fp32 or len(products.int8) != total:
        target.unlink()
        raise QuantisationError(quantised=len(products.int8), total=total, missing=products.fp32 or ["(lost)"])
    return {"weight_products": total, "quantised_products": len(products.int8), "float_tables": float_tables(graph)}


__all__ = ["quantise"]
