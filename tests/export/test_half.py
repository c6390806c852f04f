"""fp16 and bf16 graphs: typed as promised, rounded once, refused where fp16 cannot hold a value."""

import ml_dtypes
import numpy
import onnx
import onnx_ir
import pytest
import torch

from hf_albert_plus.engines.parity import TOLERANCES, cases, differences, onnx_runner
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.graph.tracing import export_graph, save_graph
from hf_albert_plus.export.precision.half import check_range, emulate, load_typed, to_half
from hf_albert_plus.export.stage import export
from hf_albert_plus.heads import HEADS
from tests.support.graphs import exported_graph

TYPES = {"fp16": onnx.TensorProto.FLOAT16, "bf16": onnx.TensorProto.BFLOAT16}


def _graph(tmp_path, head="ForSequenceClassification", **fields):
    return exported_graph(tmp_path / "m.onnx", head, **{"num_hidden_layers": 2, **fields}), tmp_path / "m.onnx"


@pytest.mark.slow
@pytest.mark.parametrize("half", TYPES)
@pytest.mark.parametrize("head", HEADS)
def test_every_head_within_its_tolerance(tmp_path, head, half):
    model, path = _graph(tmp_path, head)
    graph = load_typed(path)
    to_half(graph, half)
    save_graph(graph, tmp_path / "half.onnx")
    proto = onnx.load(tmp_path / "half.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert all(value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for value in proto.graph.output)
    emulate(graph)
    found = differences(model, onnx_runner(onnx_ir.to_proto(graph).SerializeToString()), cases(model))
    assert 0 < max(difference.scaled for difference in found) <= TOLERANCES[half]


@pytest.mark.slow
@pytest.mark.parametrize("half", TYPES)
@pytest.mark.parametrize(
    "fields", [{}, {"norm_type": "no_norm", "bottleneck_size": 16}, {"hidden_act": "gelu", "embedding_size": 32}]
)
def test_norms_and_softmax_are_in_fp32_and_products_are_not(tmp_path, half, fields):
    _, path = _graph(tmp_path, **fields)
    graph = load_typed(path)
    counts = to_half(graph, half)
    proto = onnx.shape_inference.infer_shapes(onnx_ir.to_proto(graph))
    types = {value.name: value.type.tensor_type.elem_type for value in proto.graph.value_info}
    for node in proto.graph.node:
        found = types.get(node.output[0])
        if node.op_type in {"LayerNormalization", "Softmax"}:
            assert found == onnx.TensorProto.FLOAT
        if node.op_type in {"MatMul", "Gelu", "Tanh"}:
            assert found == TYPES[half], node.name
    matrices = [tensor for tensor in proto.graph.initializer if len(tensor.dims) == 2 and tensor.data_type != 7]
    assert {tensor.data_type for tensor in matrices} == {TYPES[half]}
    assert counts.half_nodes > counts.fp32_nodes > 0


def test_weights_are_those_of_numpy_and_stored_once(tmp_path):
    model, path = _graph(tmp_path)
    for half, kind in (("fp16", numpy.float16), ("bf16", ml_dtypes.bfloat16)):
        graph = load_typed(path)
        to_half(graph, half)
        stored = {name: value.const_value.numpy() for name, value in graph.graph.initializers.items()}
        weight = model.albert_plus.embeddings.word_embeddings.weight.detach().numpy()
        name = f"albert_plus.embeddings.word_embeddings.weight_{half}"
        numpy.testing.assert_array_equal(stored[name].astype(numpy.float32), weight.astype(kind).astype(numpy.float32))
        shared = [name for name, array in stored.items() if array.shape == (32, 48)]
        assert len(shared) == 1  # the intermediate product of the one shared block


def test_emulation_rounds_where_the_types_say(tmp_path):
    """By hand: x·w + b in bf16 is bf16(bf16(x·w) + b), each operator in fp32."""
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(0)
    w, b = (random.normal(size=size).astype(numpy.float32) for size in ((4, 4), 4))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], name="p"), helper.make_node("Add", ["h", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["s", 4])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), tmp_path / "m.onnx")
    x = random.normal(size=(3, 4)).astype(numpy.float32)

    def rounded(array):
        return array.astype(ml_dtypes.bfloat16).astype(numpy.float32)

    model = load_typed(tmp_path / "m.onnx")
    to_half(model, "bf16")
    emulate(model)
    found = onnx_runner(onnx_ir.to_proto(model).SerializeToString())({"x": torch.from_numpy(x)})["y"]
    expected = rounded(rounded(rounded(x) @ rounded(w)) + rounded(b))
    numpy.testing.assert_allclose(found, expected, atol=2**-7 * numpy.abs(expected).max())
    assert (rounded(found.numpy()) == found.numpy()).all()


@pytest.mark.slow
def test_values_that_fp16_cannot_hold_are_refused_and_bf16_is_offered(tmp_path, tokenizer_dir):
    model, path = _graph(tmp_path)
    with torch.no_grad():
        model.albert_plus.encoder.ffn[0].intermediate.bias[3] = 1e5
    save_graph(export_graph(model), path)
    inputs = [case.tensors for case in cases(model)]
    with pytest.raises(InvalidInput, match=r"fp16 must not exceed 65504, got (99999|100\d+).*export onnx-bf16"):
        check_range(path, "fp16", inputs)
    assert check_range(path, "bf16", inputs) > 9e4
    with pytest.raises(InvalidInput, match="weights in fp16 must not exceed 65504, got 100000 in .*intermediate.bias"):
        to_half(load_typed(path), "fp16")


def test_a_model_with_nan_is_refused_and_nothing_is_written(tmp_path, classifier_dir):
    import shutil

    from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification

    model = AlbertPlusForSequenceClassification.from_pretrained(classifier_dir)
    with torch.no_grad():
        model.classifier.weight[0, 0] = float("nan")
    shutil.copytree(classifier_dir, tmp_path / "model")
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(
        InvalidInput, match="weights must be finite, got NaN in classifier.weight of .*; train it again"
    ):
        export(tmp_path / "model", to=["onnx-fp16"], output=tmp_path / "out")
    assert not (tmp_path / "out").exists()
