"""Products of integers are exact wherever a graph is opened: against sums in 64 bits."""

import numpy
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.engines.unsigned_weights import exact, make_unsigned, saturates

DRAW = numpy.random.default_rng(0)
# The largest inputs and weights, which overflow 16 bits at once, and others.
INPUTS = numpy.stack([numpy.full(64, 255), DRAW.integers(0, 256, 64)]).astype(numpy.uint8)
WEIGHTS = numpy.concatenate([numpy.full((64, 8), 127), DRAW.integers(-128, 128, (64, 8))], axis=1).astype(numpy.int8)
SUMS = INPUTS.astype(numpy.int64) @ WEIGHTS.astype(numpy.int64)


def model_of(nodes, outputs, stored, **kinds):
    inputs = [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, 64])]
    infos = [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.INT32), None) for name in outputs]
    tensors = [numpy_helper.from_array(value, name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "products", inputs, infos, tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def values_of(model, **feed):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": INPUTS, **feed})


def test_a_weight_that_two_products_and_a_lookup_read():
    """Products read the unsigned levels; what looks the levels up, as an embedding does, reads them as they were."""
    nodes = [
        helper.make_node("MatMulInteger", ["x", "w"], ["first"]),
        helper.make_node("MatMulInteger", ["x", "w", "", "zero"], ["second"]),
        helper.make_node("Gather", ["w", "row"], ["looked_up"]),
    ]
    zero, row = numpy.full(16, 3, numpy.int8), numpy.array(5)
    stored = {"w": WEIGHTS, "zero": zero, "row": row}
    model = model_of(nodes, ["first", "second", "looked_up"], stored, looked_up=TensorProto.INT8)
    assert make_unsigned(model) == 2
    first, second, looked_up = values_of(model)
    numpy.testing.assert_array_equal(first, SUMS)
    numpy.testing.assert_array_equal(second, INPUTS.astype(numpy.int64) @ (WEIGHTS.astype(numpy.int64) - 3))
    numpy.testing.assert_array_equal(looked_up, WEIGHTS[5])
    assert [tensor.name for tensor in model.graph.initializer if tensor.name.startswith("w")] == ["w", "w.unsigned"]


@pytest.mark.parametrize("zero", [0, 7])
def test_products_with_scales(zero):
    step, scale = numpy.array(0.5, numpy.float32), numpy.full(16, 0.25, numpy.float32)
    stored = {"w": WEIGHTS, "step": step, "scale": scale, "zero": numpy.array(zero, numpy.uint8)}
    node = helper.make_node("MatMulIntegerToFloat", ["x", "w", "step", "scale", "zero"], ["y"], domain="com.microsoft")
    model = model_of([node], ["y"], stored, y=TensorProto.FLOAT)
    assert make_unsigned(model) == 1
    (y,) = values_of(model)
    wanted = (INPUTS.astype(numpy.int64) - zero) @ WEIGHTS.astype(numpy.int64) * 0.125
    numpy.testing.assert_allclose(y, wanted, rtol=1e-6)


def test_inside_of_a_loop():
    """The body reads the weight of the graph around it."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["sums"]), helper.make_node("Identity", ["go_on"], ["still"])],
        "body",
        [info("number", TensorProto.INT64, []), info("go_on", TensorProto.BOOL, [])],
        [info("still", TensorProto.BOOL, []), info("sums", TensorProto.INT32, None)],
    )
    loop = helper.make_node("Loop", ["trips", "start"], ["y"], body=body)
    model = model_of([loop], ["y"], {"w": WEIGHTS, "trips": numpy.array(3), "start": numpy.array(True)})
    assert make_unsigned(model) == 1
    (y,) = values_of(model)
    numpy.testing.assert_array_equal(y, numpy.stack([SUMS] * 3))


def test_every_session_of_ours_is_exact(tmp_path):
    model = model_of([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], ["y"], {"w": WEIGHTS})
    onnx.save(model, tmp_path / "model.onnx")
    for graph in (tmp_path / "model.onnx", model.SerializeToString()):
        numpy.testing.assert_array_equal(open_session(graph).run(None, {"x": INPUTS})[0], SUMS)


def test_a_graph_without_such_products_stays_as_it_is(tmp_path):
    model = model_of([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT32)], ["y"], {})
    assert make_unsigned(model) == 0
    (tmp_path / "model.onnx").write_bytes(b"no graph at all")
    assert exact(tmp_path / "model.onnx") == tmp_path / "model.onnx"


def test_whether_this_processor_saturates():
    """It does where signed weights give another sum than unsigned ones."""
    model = model_of([helper.make_node("MatMulInteger", ["x", "w"], ["y"])], ["y"], {"w": WEIGHTS})
    (signed,) = values_of(model)
    assert saturates() == bool((signed != SUMS).any())
