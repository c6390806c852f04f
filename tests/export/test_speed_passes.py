"""The passes that shorten the work compute what the whole graph computes, on every architecture and head."""

import numpy
import onnx
import onnx_ir
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
)

from hf_albert_plus.engines.parity import cases, differences, onnx_runner
from hf_albert_plus.export.graph.first_token import keep_first_token
from hf_albert_plus.export.graph.gelu import fuse_gelu
from hf_albert_plus.export.graph.masks import narrow_mask
from hf_albert_plus.export.graph.tracing import PASSES, applied_passes, apply_passes, export_graph, save_graph
from hf_albert_plus.export.precision.half import load_typed
from hf_albert_plus.export.precision.products import count_products
from hf_albert_plus.heads import HEADS
from hf_albert_plus.random_inputs import random_inputs
from tests.support.graphs import exported_graph, traced
from tests.support.small_models import SMALL, randomise

ARCHITECTURES = {
    "all-shared": {"num_hidden_layers": 3},
    "not-shared": {"attention_sharing": "none", "ffn_sharing": "none", "hidden_act": "gelu", "num_hidden_layers": 2},
    "bottleneck": {
        "norm_type": "no_norm", "bottleneck_size": 16, "num_feedforward_networks": 2, "pooler": "none",
        "num_hidden_layers": 2,
    },
    "uneven": {
        "attention_sharing": "none", "block_attention_heads": [3, 1], "ffn_sharing": "none", "block_intermediate_sizes": [8, 40],
        "num_hidden_layers": 2,
    },
    "no token types": {"type_vocab_size": 0, "hidden_act": "relu", "num_hidden_layers": 1},
}  # fmt: skip


def _exported(path, name):
    return exported_graph(path, **ARCHITECTURES[name])


def _sizes_computed(path, model, *, batch, length):
    """Rows of each weight product's output, by running the graph with all of them as outputs."""
    proto = onnx.load(path)
    names = count_products(proto.graph).fp32
    outputs = {node.name: node.output[0] for node in proto.graph.node if node.name in names}
    for value in outputs.values():
        proto.graph.output.append(onnx.ValueInfoProto(name=value))
    found = onnx_runner(proto.SerializeToString())(random_inputs(model, batch=batch, length=length))
    return {name: found[value].shape[:-1].numel() for name, value in outputs.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize(
    "chosen", [(), *((one,) for one in PASSES), tuple(PASSES)], ids=lambda c: "+".join(c) or "none"
)
def test_every_pass_alone_and_together_keeps_the_outputs(tmp_path, name, chosen):
    model, graph = traced(**ARCHITECTURES[name])
    apply_passes(graph, chosen)
    save_graph(graph, tmp_path / "m.onnx")
    found = differences(model, onnx_runner(tmp_path / "m.onnx"), cases(model))
    assert max(difference.scaled for difference in found) <= 2e-6
    assert set(applied_passes(onnx.load(tmp_path / "m.onnx"))) == set(chosen)


def test_the_last_layer_computes_one_token_and_the_others_all(tmp_path):
    """Counted in a run: in the last layer only keys and values have a row for every token."""
    model = _exported(tmp_path / "m.onnx", "not-shared")
    rows = _sizes_computed(tmp_path / "m.onnx", model, batch=3, length=7)
    for name, count in rows.items():
        one_token = "layers.1" in name and not name.endswith(("key", "value"))
        assert count == (3 if one_token or ("layers" not in name and "projection" not in name) else 21), name
    assert sum("layers.1" in name for name in rows) == 6


@pytest.mark.parametrize(
    "head", [head for head in HEADS if head not in ("ForSequenceClassification", "ForMultipleChoice")]
)
def test_heads_that_read_the_whole_sequence_are_left_alone(head):
    _, graph = traced(head, num_hidden_layers=2)
    apply_passes(graph, ["keep_first_token"])
    assert applied_passes(onnx_ir.to_proto(graph)) == {"keep_first_token": 0}


@pytest.mark.parametrize(
    "model",
    [
        lambda: BertForSequenceClassification(BertConfig(**SMALL)),
        lambda: DistilBertForSequenceClassification(
            DistilBertConfig(vocab_size=120, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=64)
        ),
    ],
    ids=["bert", "distilbert"],
)
@pytest.mark.slow
def test_other_peoples_encoders_profit_too(tmp_path, model):
    model = randomise(model())
    save_graph(export_graph(model), tmp_path / "m.onnx")
    applied = applied_passes(onnx.load(tmp_path / "m.onnx"))
    assert applied["narrow_mask"] == 1
    assert applied["keep_first_token"] > 15
    found = differences(model, onnx_runner(tmp_path / "m.onnx"), cases(model))
    assert max(difference.scaled for difference in found) <= 2e-6


def test_the_mask_is_a_row_a_sequence(tmp_path):
    _exported(tmp_path / "m.onnx", "all-shared")
    ops = [node.op_type for node in onnx.load(tmp_path / "m.onnx").graph.node]
    assert "GatherND" not in ops
    assert ops.count("Where") == 1


def test_a_graph_without_the_patterns_is_left_alone():
    from onnx import TensorProto, helper

    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Add", ["x", "x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "s", 4])],
        )
    )
    model = onnx_ir.from_proto(proto)
    before = onnx_ir.to_proto(model).SerializeToString()
    assert [apply(model) for apply in (narrow_mask, keep_first_token, fuse_gelu)] == [0, 0, 0]
    assert onnx_ir.to_proto(model).SerializeToString() == before


@pytest.mark.parametrize(("token", "narrowed"), [(0, 1), (1, 0)])
def test_a_selection_of_another_token_stays(token, narrowed):
    graph = onnx_ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 20]>
        g (float[b, s, 4] x) => (float[b, 4] y) <int64 index = {{{token}}}> {{
            h = Relu (x)
            y = Gather <axis = 1> (h, index)
        }}"""
    )
    graph.graph[0].outputs[0].shape = graph.graph.inputs[0].shape
    assert keep_first_token(graph) == narrowed
    given = torch.randn(2, 5, 4)
    found = onnx_runner(onnx_ir.to_proto(graph).SerializeToString())({"x": given})["y"]
    numpy.testing.assert_array_equal(found, given.relu()[:, token])


def test_products_are_named_after_layer_and_module(tmp_path):
    _exported(tmp_path / "m.onnx", "all-shared")
    names = count_products(onnx.load(tmp_path / "m.onnx").graph).fp32
    assert len(set(names)) == len(names) == 6 * 3 + 3
    assert "albert_plus.encoder.layers.2.attention.0.query" in names
    assert "albert_plus.encoder.layers.0.ffn.0.intermediate" in names
    assert {"albert_plus.embeddings.projection", "albert_plus.pooler", "classifier"} <= set(names)


def test_gelu_is_one_operator_with_the_same_values(tmp_path):
    model = _exported(tmp_path / "m.onnx", "all-shared")
    graph = load_typed(tmp_path / "m.onnx")
    assert fuse_gelu(graph) == 3
    save_graph(graph, tmp_path / "fused.onnx")
    ops = [node.op_type for node in onnx.load(tmp_path / "fused.onnx").graph.node]
    assert ops.count("Gelu") == 3
    assert "Pow" not in ops
    inputs = random_inputs(model, batch=3, length=9)
    numpy.testing.assert_allclose(
        onnx_runner(tmp_path / "fused.onnx")(inputs)["logits"],
        onnx_runner(tmp_path / "m.onnx")(inputs)["logits"],
        atol=1e-6,
    )


def test_a_first_token_that_is_read_elsewhere_too_stays_whole():
    """Pretraining reads the last hidden state twice: once whole, once at its first token."""
    model, graph = traced("ForPreTraining", num_hidden_layers=2)
    apply_passes(graph)
    with torch.no_grad():
        expected = model(**random_inputs(model, batch=2, length=5))
    run = onnx_runner(onnx_ir.to_proto(graph).SerializeToString())
    found = run(random_inputs(model, batch=2, length=5))
    numpy.testing.assert_allclose(found["sop_logits"], expected.sop_logits, atol=1e-5)
