"""The mean of the tokens in a graph is the same to the last bit in every batch, as a sum by hand gives it, a token after the other."""

import numpy
import onnx
import onnx_ir
import pytest
import torch
from onnx import TensorProto, helper
from onnxruntime import InferenceSession

from hf_albert_plus import AlbertPlusConfig, AlbertPlusForSequenceClassification
from hf_albert_plus.export.graph.ordered_sums import add_in_order
from hf_albert_plus.export.graph.tracing import export_graph
from tests.support.small_models import SMALL

WIDTH = 48


def graph_of(keepdims=0):
    """A weighted sum over tokens, `[batch, sequence, WIDTH]` by `[batch, sequence, 1]`, beside one over the weights."""
    nodes = [
        helper.make_node("Mul", ["hidden", "shares"], ["shared"]),
        helper.make_node("ReduceSum", ["shared", "axis"], ["mean"], keepdims=keepdims),
        helper.make_node("ReduceSum", ["shares", "last"], ["weights"], keepdims=0),
    ]
    inputs = [("hidden", ["batch", "sequence", WIDTH]), ("shares", ["batch", "sequence", 1])]
    outputs = [("mean", ["batch", *[1] * keepdims, WIDTH]), ("weights", ["batch", "sequence"])]
    values = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side]
        for side in (inputs, outputs)
    ]
    axes = [helper.make_tensor(name, TensorProto.INT64, [1], [axis]) for name, axis in (("axis", 1), ("last", 2))]
    graph = helper.make_graph(nodes, "sums", *values, axes)
    return helper.make_model(onnx.shape_inference.infer_shapes(helper.make_model(graph)).graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)  # fmt: skip


def answers(proto, hidden, shares):
    return InferenceSession(proto.SerializeToString()).run(None, {"hidden": hidden, "shares": shares})


def one_after_the_other(hidden_SH, shares_S1):
    total = hidden_SH[0] * shares_S1[0]
    for token, share in zip(hidden_SH[1:], shares_S1[1:], strict=True):
        total = total + token * share
    return total


@pytest.mark.parametrize(("rows", "padding"), [(1, 0), (1, 13), (2, 0), (7, 29), (32, 3)])
def test_a_sum_is_that_of_a_token_after_the_other_in_every_batch(rows, padding):
    model = onnx_ir.from_proto(graph_of())
    assert add_in_order(model) == 1
    assert [value.name for value in model.graph.outputs] == ["mean", "weights"]
    ordered = onnx_ir.to_proto(model)
    onnx.checker.check_model(ordered, full_check=True)
    random = numpy.random.default_rng(0)
    for length in (1, 2, 5, 16, 37):
        hidden = random.standard_normal((rows, length + padding, WIDTH), dtype=numpy.float32)
        shares = numpy.zeros((rows, length + padding, 1), numpy.float32)
        shares[:, :length] = 1 / length
        mean, weights = answers(ordered, hidden, shares)
        for row in range(rows):
            expected = one_after_the_other(hidden[row, :length], shares[row, :length])
            numpy.testing.assert_array_equal(mean[row], expected)
        numpy.testing.assert_array_equal(weights, shares[..., 0])


def test_a_sum_that_keeps_its_axis_stays():
    assert add_in_order(onnx_ir.from_proto(graph_of(keepdims=1))) == 0


@pytest.mark.slow
@pytest.mark.parametrize("pooler", ["tanh", "none"])
def test_a_classifier_on_the_mean_has_its_sum_in_order(pooler):
    torch.manual_seed(0)
    config = AlbertPlusConfig(**SMALL, pooling="mean", pooler=pooler)
    graph = export_graph(AlbertPlusForSequenceClassification(config)).graph
    sums = [node for node in graph if node.op_type == "ReduceSum"]
    over_values = [node for node in sums if node.inputs[0].producer().op_type == "Reshape"]
    assert len(over_values) == 1
    assert over_values[0].inputs[1].const_value.numpy().tolist() == [0]
    assert [node for node in sums if node not in over_values and len(node.inputs[0].shape) == 3] == []
