"""Attention as one operator computes what the operators that it replaces compute, of padded texts too."""

import numpy
import onnx
import onnx_ir
import pytest
import torch

from hf_albert_plus.engines.parity import onnx_runner
from hf_albert_plus.export.graph.attention import fuse_attention
from hf_albert_plus.export.graph.tracing import applied_passes, apply_passes, export_graph, save_graph
from hf_albert_plus.export.precision.input_ranges import find_ranges
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.random_inputs import random_inputs
from tests.support.graphs import traced

MODELS = {
    "all-shared": {"num_hidden_layers": 3},
    "not-shared": {"attention_sharing": "none", "ffn_sharing": "none", "num_hidden_layers": 2},
    "one head": {"num_attention_heads": 1, "num_hidden_layers": 2},
    "bottleneck": {"norm_type": "no_norm", "bottleneck_size": 16, "pooler": "none", "num_hidden_layers": 2},
    "relative positions": {"relative_attention_buckets": 8, "attention_sharing": "none", "num_hidden_layers": 2},
    "relative positions, all tokens read": {
        "relative_attention_buckets": 8,
        "pooling": "mean",
        "attention_sharing": "none",
        "num_hidden_layers": 2,
    },
    "layers that differ": {"layer_rank": 2, "num_hidden_layers": 3},
    "heads pruned": {"attention_sharing": "none", "block_attention_heads": [3, 1], "num_hidden_layers": 2},
}


def _padded(model, *, batch, length, side):
    inputs = random_inputs(model, batch=batch, length=length)
    mask = torch.ones_like(inputs["attention_mask"])
    for row in range(1, batch):
        padding = slice(0, row) if side == "left" else slice(length - row, length)
        mask[row, ..., padding] = 0
    return {**inputs, "attention_mask": mask}


@pytest.mark.slow
@pytest.mark.parametrize("passes", [(), ("narrow_mask", "keep_first_token")], ids=["as traced", "after the others"])
@pytest.mark.parametrize("name", MODELS)
def test_every_attention_is_one_operator_with_the_same_values(tmp_path, name, passes):
    model, graph = traced(**MODELS[name])
    apply_passes(graph, passes)
    apply_passes(graph, ["fuse_attention"])
    save_graph(graph, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    layers = MODELS[name]["num_hidden_layers"]
    assert applied_passes(proto)["fuse_attention"] == layers
    operators = [node.op_type for node in proto.graph.node]
    assert operators.count("Attention") == layers
    assert "Softmax" not in operators
    run = onnx_runner(tmp_path / "m.onnx")
    for batch, length in ((1, 1), (1, 7), (4, 6), (3, 20)):
        for side in ("left", "right"):
            inputs = _padded(model, batch=batch, length=length, side=side)
            with torch.no_grad():
                expected = model(**inputs).logits
            numpy.testing.assert_allclose(run(inputs)["logits"], expected, atol=2e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["ForMultipleChoice", "ForTokenClassification"])
def test_heads_of_other_shapes_too(head):
    model, graph = traced(head, num_hidden_layers=2)
    apply_passes(graph)
    assert applied_passes(onnx_ir.to_proto(graph))["fuse_attention"] == 2
    inputs = random_inputs(model, batch=3, length=9)
    with torch.no_grad():
        expected = model(**inputs).logits
    found = onnx_runner(onnx_ir.to_proto(graph).SerializeToString())(inputs)["logits"]
    numpy.testing.assert_allclose(found, expected, atol=2e-6, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all-shared", "relative positions, all tokens read", "layers that differ"])
def test_an_int8_graph_answers_as_without_the_pass(tmp_path, name):
    model, graph = traced(**MODELS[name])
    apply_passes(graph, ("narrow_mask", "keep_first_token"))
    save_graph(graph, tmp_path / "m.onnx")
    examples = [{name: tensor.numpy() for name, tensor in random_inputs(model, batch=2, length=12).items()}]
    ranges = find_ranges(tmp_path / "m.onnx", examples)
    quantise(tmp_path / "m.onnx", tmp_path / "one.onnx", ranges=ranges)
    quantise(tmp_path / "m.onnx", tmp_path / "ten.onnx", ranges=ranges, passes=("write_residuals_as_sum",))
    assert "Softmax" not in {node.op_type for node in onnx.load(tmp_path / "one.onnx").graph.node}
    inputs = _padded(model, batch=3, length=12, side="right")
    one, ten = (onnx_runner(tmp_path / name)(inputs)["logits"] for name in ("one.onnx", "ten.onnx"))
    numpy.testing.assert_allclose(one, ten, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_an_fp32_graph_keeps_the_standard_operators_of_before():
    model, _ = traced(num_hidden_layers=3)
    graph = export_graph(model)
    assert graph.graph.opset_imports[""] < 23
    assert "Attention" not in {node.op_type for node in graph.graph}


def test_a_graph_whose_softmax_is_no_attention_is_left_alone():
    graph = onnx_ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 20]>
        g (float[b, 4] x) => (float[b, 4] y) { y = Softmax (x) }"""
    )
    before = onnx_ir.to_proto(graph).SerializeToString()
    assert fuse_attention(graph) == 0
    assert onnx_ir.to_proto(graph).SerializeToString() == before
