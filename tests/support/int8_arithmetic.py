"""Whether onnxruntime's int8 products are exact on this processor."""

from functools import cache

import numpy
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

_DEPTH = 64


@cache
def saturates() -> bool:
    """Whether pairs of products of unsigned and signed bytes are added in 16 bits, as x86 processors without VNNI do it: the sum of
    the largest ones is then too small."""
    node = helper.make_node("MatMulInteger", ["activations", "weights"], ["product"])
    graph = helper.make_graph(
        [node],
        "largest",
        [helper.make_tensor_value_info("activations", TensorProto.UINT8, [1, _DEPTH])],
        [helper.make_tensor_value_info("product", TensorProto.INT32, [1, 16])],
        [numpy_helper.from_array(numpy.full((_DEPTH, 16), 127, numpy.int8), "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (product,) = session.run(None, {"activations": numpy.full((1, _DEPTH), 255, numpy.uint8)})
    return bool((product != _DEPTH * 255 * 127).any())


exact_int8 = pytest.mark.skipif(
    saturates(), reason="onnxruntime adds int8 products in 16 bits on this processor, which has no VNNI"
)
