"""The weight products of a graph, every one counted: matrix products with a stored weight, in an fp32 or a quantised graph."""

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import onnx
import onnx_ir

from hf_albert_plus.errors import InvalidInput, QuantisationError, suggest
from hf_albert_plus.export.graph.rewrites import fold_weight_transposes, separate_weights
from hf_albert_plus.export.graph.tracing import apply_passes

# What the name of a product of a few channels in fp32 adds to that of the product which it completes, and with which it counts as one.
CHANNELS = ".channels"
_FLOAT = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}
_PASS_THROUGH = {"Transpose", "Identity", "Cast", "DequantizeLinear"}
_QUANTISED = {"MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulNBits"}


@dataclass(frozen=True)
class WeightProducts:
    """How many weight products a graph has."""

    weight_products: int


@dataclass(frozen=True)
class QuantisedProducts(WeightProducts):
    """How many of them are quantised, and the names of those in fp32."""

    quantised_products: int
    kept_fp32: tuple[str, ...]


@dataclass(frozen=True)
class QuantisedGraph(QuantisedProducts):
    """The same of an ONNX graph, with the embedding tables that it stores in a float type."""

    float_tables: tuple[str, ...]


@dataclass(frozen=True)
class Products:
    """Names of a graph's weight products, by precision."""

    fp32: list[str]
    quantised: list[str]

    @property
    def total(self) -> int:
        return len(self.fp32) + len(self.quantised)


def count_products(graph: onnx.GraphProto) -> Products:
    """Finds every MatMul, Gemm and integer product that reads a stored matrix, directly or through Transpose, Identity,
    Cast or DequantizeLinear. Products of two computed tensors (attention scores, context) are no weight products."""
    weights = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) >= 2}
    producers = {output: node for node in graph.node for output in node.output}

    def weight_of(name: str) -> onnx.TensorProto | None:
        while name in producers and producers[name].op_type in _PASS_THROUGH:
            name = producers[name].input[0]
        return weights.get(name)

    def reads_dequantised(node: onnx.NodeProto) -> bool:
        return all(name in producers and producers[name].op_type == "DequantizeLinear" for name in node.input[:2])

    fp32, quantised = [], []
    for node in graph.node:
        stored = [weight for name in node.input[:2] if (weight := weight_of(name)) is not None]
        name = node.name or node.output[0]
        if name.endswith(CHANNELS):
            continue
        if node.op_type in {"MatMul", "Gemm"} and any(weight.data_type in _FLOAT for weight in stored):
            fp32.append(name)
        elif stored and (node.op_type in _QUANTISED or (node.op_type == "MatMul" and reads_dequantised(node))):
            quantised.append(name)
    return Products(fp32=fp32, quantised=quantised)


def float_tables(graph: onnx.GraphProto) -> list[str]:
    """Embedding tables that are still stored in a float type: matrices read by Gather. A column of scales is none."""
    matrices = {
        tensor.name
        for tensor in graph.initializer
        if len(tensor.dims) == 2 and tensor.dims[1] > 1 and tensor.data_type in _FLOAT
    }
    return sorted({node.input[0] for node in graph.node if node.op_type == "Gather" and node.input[0] in matrices})


def prepared(source: Path, *, keep_fp32: Collection[str], passes: Collection[str]) -> onnx_ir.Model:
    """An fp32 graph, ready for its weights to be rounded: those of products that are kept are their own."""
    graph_model = onnx_ir.load(source)
    # A decoder that is the embedding table needs a copy of its own: one is read by rows, one by columns, in int8 both.
    fold_weight_transposes(graph_model, copy_tied=True)
    apply_passes(graph_model, passes)
    separate_weights(graph_model, keep_fp32)
    return graph_model


def check_counts(target: Path, names: list[str], *, keep_fp32: Collection[str] = ()) -> QuantisedGraph:
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
    return QuantisedGraph(
        weight_products=len(names),
        quantised_products=len(products.quantised),
        kept_fp32=tuple(sorted(products.fp32)),
        float_tables=tuple(float_tables(graph)),
    )


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
