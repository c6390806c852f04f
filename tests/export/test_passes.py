"""Graph passes on small graphs: the same results before and after, and each tensor once."""

import numpy
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from hf_albert_plus.export.graph.rewrites import deduplicate_initializers, fold_weight_transposes, name_axes, split_gemm
from hf_albert_plus.export.precision.products import count_products


def _model(nodes, initializers) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s3", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["s3", 4])],
        [numpy_helper.from_array(value, name) for name, value in initializers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _run(model: onnx.ModelProto) -> numpy.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": numpy.arange(12, dtype=numpy.float32).reshape(3, 4)})[0]


def _apply(proto, *passes):
    model = onnx_ir.from_proto(proto)
    counts = [apply(model) for apply in passes]
    after = onnx_ir.to_proto(model)
    onnx.checker.check_model(after)
    numpy.testing.assert_allclose(_run(after), _run(proto), rtol=1e-6)
    return after, counts


W = numpy.random.default_rng(0).normal(size=(4, 4)).astype(numpy.float32)
B = numpy.arange(4, dtype=numpy.float32)


def test_a_weight_shared_by_two_layers_is_transposed_and_stored_once():
    proto = _model(
        [
            helper.make_node("Transpose", ["w"], ["t1"], perm=[1, 0]),
            helper.make_node("Transpose", ["w"], ["t2"], perm=[1, 0]),
            helper.make_node("MatMul", ["x", "t1"], ["h"]),
            helper.make_node("MatMul", ["h", "t2"], ["y"]),
        ],
        {"w": W},
    )
    after, (removed,) = _apply(proto, fold_weight_transposes)
    assert removed == 2
    assert [tensor.name for tensor in after.graph.initializer] == ["w.T"]
    assert [node.op_type for node in after.graph.node] == ["MatMul", "MatMul"]


def test_a_weight_that_is_read_both_ways_keeps_its_transpose():
    proto = _model(
        [
            helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["x", "t"], ["h"]),
            helper.make_node("MatMul", ["h", "w"], ["y"]),
        ],
        {"w": W},
    )
    after, (removed,) = _apply(proto, fold_weight_transposes)
    assert removed == 0
    assert len(after.graph.initializer) == 1
    assert count_products(after.graph).total == 2


def test_equal_tensors_are_merged_and_near_equal_ones_are_not():
    near = W.copy()
    near[0, 0] = numpy.nextafter(near[0, 0], numpy.float32(9))
    proto = _model(
        [
            helper.make_node("MatMul", ["x", "a"], ["h1"]),
            helper.make_node("MatMul", ["h1", "b"], ["h2"]),
            helper.make_node("MatMul", ["h2", "c"], ["y"]),
        ],
        {"a": W, "b": W.copy(), "c": near},
    )
    after, (removed,) = _apply(proto, deduplicate_initializers)
    assert removed == 1
    assert len(after.graph.initializer) == 2


@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm_becomes_product_and_sum(trans_b):
    proto = _model([helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=trans_b)], {"w": W, "b": B})
    after, (replaced,) = _apply(proto, split_gemm)
    assert replaced == 1
    assert [node.op_type for node in after.graph.node] == ["MatMul", "Add"]
    assert after.graph.output[0].name == "y"
    assert len(after.graph.initializer) == 2


def test_a_scaled_gemm_stays():
    proto = _model([helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5)], {"w": W, "b": B})
    after, (replaced,) = _apply(proto, split_gemm)
    assert replaced == 0
    assert after.graph.node[0].op_type == "Gemm"


def test_axes_are_named_in_order():
    model = onnx_ir.from_proto(_model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": W}))
    name_axes(model, ("batch", "sequence"))
    assert [str(dim) for dim in model.graph.inputs[0].shape] == ["batch", "4"]
    assert [str(dim) for dim in model.graph.outputs[0].shape] == ["batch", "4"]


def test_products_are_found_behind_transposes_and_scores_are_not_counted():
    proto = _model(
        [
            helper.make_node("Identity", ["w"], ["i"]),
            helper.make_node("Transpose", ["i"], ["t"], perm=[1, 0]),
            helper.make_node("MatMul", ["x", "t"], ["h"], name="behind"),
            helper.make_node("Transpose", ["h"], ["ht"], perm=[1, 0]),
            helper.make_node("MatMul", ["h", "ht"], ["scores"], name="scores"),
            helper.make_node("MatMul", ["scores", "x"], ["y"], name="context"),
        ],
        {"w": W},
    )
    assert count_products(proto.graph).fp32 == ["behind"]
