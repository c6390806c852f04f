"""Counting weight products: the matrix products with a stored weight, in fp32 and in quantised graphs."""

from dataclasses import dataclass

import onnx

_FLOAT = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}
_PASS_THROUGH = {"Transpose", "Identity", "Cast", "DequantizeLinear"}
_QUANTISED = {"MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulNBits"}


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
        if node.op_type in {"MatMul", "Gemm"} and any(weight.data_type in _FLOAT for weight in stored):
            fp32.append(name)
        elif stored and (node.op_type in _QUANTISED or (node.op_type == "MatMul" and reads_dequantised(node))):
            quantised.append(name)
    return Products(fp32=fp32, quantised=quantised)


def float_tables(graph: onnx.GraphProto) -> list[str]:
    """Embedding tables that are still stored in a float type: matrices read by Gather."""
    matrices = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2 and tensor.data_type in _FLOAT}
    return sorted({node.input[0] for node in graph.node if node.op_type == "Gather" and node.input[0] in matrices})


__all__ = ["Products", "count_products", "float_tables"]
