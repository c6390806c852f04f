"""Dynamic int8: weights quantised per channel and stored once, activations at run time, every product counted."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import onnx
import onnx_ir

from hf_albert_plus.errors import InvalidInput, QuantisationError, suggest
from hf_albert_plus.export.graph import INT8_PASSES, apply_passes, save_graph
from hf_albert_plus.export.passes import fold_weight_transposes, separate_weights
from hf_albert_plus.export.products import count_products, float_tables
from hf_albert_plus.export.quiet import quiet_loggers


def quantise(
    source: Path, target: Path, *, keep_fp32: Collection[str] = (), passes: Collection[str] = INT8_PASSES
) -> dict[str, Any]:
    """Quantises the weight products and embedding tables of an fp32 graph with onnxruntime.

    Args:
        source: an fp32 graph from `export_graph`: its weights lie directly under their products, so that the quantiser,
            which passes over anything behind a Transpose or Identity in silence, sees them all.
        keep_fp32: names of products to leave as they are.
        passes: names of the graph passes to run first.

    Returns:
        Counts for the record: weight products in all and quantised, those kept in fp32, embedding tables left in float.

    Raises:
        QuantisationError: another weight product stayed in fp32; the target is removed.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    products = count_products(onnx.load(source).graph)
    target.parent.mkdir(parents=True, exist_ok=True)
    graph_model = prepared(source, keep_fp32=keep_fp32, passes=passes)
    folded = target.with_suffix(".folded.onnx")
    save_graph(graph_model, folded)
    try:
        with quiet_loggers("root"):  # the quantiser recommends its own pre-processing there at every call
            quantize_dynamic(
                folded,
                target,
                op_types_to_quantize=["MatMul", "Gather"],
                per_channel=True,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=list(keep_fp32),
            )
    finally:
        folded.unlink()
    return check_counts(target, products.fp32, keep_fp32=keep_fp32)


def prepared(source: Path, *, keep_fp32: Collection[str], passes: Collection[str] = INT8_PASSES) -> onnx_ir.Model:
    """An fp32 graph, ready for its weights to be rounded: those of products that are kept are their own."""
    graph_model = onnx_ir.load(source)
    # A decoder that is the embedding table needs a copy of its own: one is read by rows, one by columns, in int8 both.
    fold_weight_transposes(graph_model, copy_tied=True)
    apply_passes(graph_model, passes)
    separate_weights(graph_model, keep_fp32)
    return graph_model


def check_counts(target: Path, names: list[str], *, keep_fp32: Collection[str] = ()) -> dict[str, Any]:
    """Counts the products of a quantised graph.

    Args:
        names: the weight products before.

    Raises:
        QuantisationError: one that is not to be kept is in fp32, or lost.
    """
    graph = onnx.load(target).graph
    products = count_products(graph)
    missing = sorted(set(products.fp32) - set(keep_fp32))
    if missing or products.total != len(names):
        target.unlink()
        raise QuantisationError(quantised=len(products.quantised), total=len(names), missing=missing or ["(lost)"])
    return {
        "weight_products": len(names),
        "quantised_products": len(products.quantised),
        "kept_fp32": sorted(products.fp32),
        "float_tables": float_tables(graph),
    }


def matching_products(source: Path, patterns: Collection[str]) -> list[str]:
    """The weight products of a graph whose names match any of the patterns (`*` and `?` as in a shell).

    Raises:
        InvalidInput: a pattern matches none.
    """
    names = count_products(onnx.load(source).graph).fp32
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InvalidInput(
                "--keep-fp32 must match a weight product", got=repr(pattern), repair=suggest(pattern, names)
            )
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


__all__ = ["check_counts", "matching_products", "prepared", "quantise"]
