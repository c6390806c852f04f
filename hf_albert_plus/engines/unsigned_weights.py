"""int8 products that are exact on x86 processors without VNNI.

There onnxruntime multiplies unsigned inputs by signed weights with an instruction that adds pairs of products in 16 bits, and cuts what does
not fit (`vpmaddubsw`). Its products of unsigned weights have no such step. So a graph's signed weights become unsigned ones with a zero of 128
while it is loaded: the same numbers, the same file.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    import onnx

# The inputs that are weights' levels and their zeros, by operator.
_PRODUCTS = {"MatMulInteger": (1, 3), "MatMulIntegerToFloat": (1, 5), "DynamicQuantizeMatMul": (1, 3)}
_ZERO = "zero of unsigned weights"
_UNSIGNED = ".unsigned"


def exact(graph: Path | bytes) -> Path | bytes:
    """A graph whose int8 products are exact here: the one given, where they are anyway."""
    if not saturates():
        return graph
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(graph) if isinstance(graph, Path) else onnx.load_model_from_string(graph)
    except (DecodeError, OSError):  # onnxruntime says what is wrong with it
        return graph
    return model.SerializeToString() if make_unsigned(model) else graph


@cache
def saturates() -> bool:
    """Whether a sum of the largest products is too small on this processor."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    depth = 64
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["inputs", "weights"], ["sums"])],
        "largest products",
        [helper.make_tensor_value_info("inputs", TensorProto.UINT8, [1, depth])],
        [helper.make_tensor_value_info("sums", TensorProto.INT32, [1, 16])],
        [numpy_helper.from_array(numpy.full((depth, 16), 127, numpy.int8), "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (sums,) = session.run(None, {"inputs": numpy.full((1, depth), 255, numpy.uint8)})
    return bool((sums != depth * 255 * 127).any())


def make_unsigned(model: "onnx.ModelProto") -> int:
    """Makes the stored weights of products of integers unsigned, in the graphs of loops and branches too; how many products read one."""
    from onnx import TensorProto, numpy_helper

    graphs = list(_graphs(model.graph))
    stored = {
        tensor.name: (graph, tensor)
        for graph in graphs
        for tensor in graph.initializer
        if tensor.data_type == TensorProto.INT8
    }
    changed = 0
    for graph in graphs:
        for node in graph.node:
            levels, zero = _PRODUCTS.get(node.op_type, (0, 0))
            if not levels or node.input[levels] not in stored:
                continue
            given = node.input[zero] if len(node.input) > zero else ""
            if given and given not in stored:
                continue
            while len(node.input) <= zero:
                node.input.append("")
            node.input[levels] += _UNSIGNED
            node.input[zero] = given + _UNSIGNED if given else _ZERO
            changed += 1
    if not changed:
        return 0
    read = {name for graph in graphs for node in graph.node for name in node.input}
    read |= {output.name for graph in graphs for output in graph.output}
    for name, (graph, tensor) in stored.items():
        if name + _UNSIGNED in read:
            levels_IO = numpy_helper.to_array(tensor).view(numpy.uint8) ^ numpy.uint8(128)
            graph.initializer.append(numpy_helper.from_array(levels_IO, name + _UNSIGNED))
            if name not in read:
                graph.initializer.remove(tensor)
    if _ZERO in read:
        model.graph.initializer.append(numpy_helper.from_array(numpy.array(128, numpy.uint8), _ZERO))
    return changed


def _graphs(graph: "onnx.GraphProto") -> Iterator["onnx.GraphProto"]:
    """A graph and those of its loops and branches."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)
            for each in attribute.graphs:
                yield from _graphs(each)
