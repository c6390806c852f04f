"""Ranges of the inputs of products: against a brute force, and on channels that reach far beyond the others."""

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.export.precision.input_ranges import Range, find_ranges
from hf_albert_plus.export.precision.int8 import quantise

INPUTS, TOKENS = 24, 8


def graph_of(path, *weights):
    """Products of one input, one after the other's input divided by two: shared weights have ranges of their own."""
    nodes, outputs, value = [], [], "x"
    for number, weight in enumerate(weights):
        nodes.append(helper.make_node("MatMul", [value, weight.name], [f"y{number}"], name=f"product{number}"))
        outputs.append(helper.make_tensor_value_info(f"y{number}", TensorProto.FLOAT, None))
        nodes.append(helper.make_node("Mul", [value, "half"], [f"x{number}"]))
        value = f"x{number}"
    stored = {weight.name: weight for weight in (*weights, numpy_helper.from_array(numpy.float32(0.5), "half"))}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", INPUTS])
    graph = helper.make_graph(nodes, "products", [x], outputs, list(stored.values()))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def weight_of(name, outputs, seed=0):
    values = numpy.random.default_rng(seed).normal(size=(INPUTS, outputs)).astype(numpy.float32)
    return numpy_helper.from_array(values, name)


def feeds_of(scale=None, count=12):
    """Examples whose channels are as wide as the scale says."""
    random = numpy.random.default_rng(1)
    scale = numpy.ones(INPUTS) if scale is None else scale
    return [{"x": (random.normal(size=(1, TOKENS, INPUTS)) * scale).astype(numpy.float32)} for _ in range(count)]


def error_of(path, target, feeds, ranges):
    """The squared error of the first product over the square of what it gives."""
    quantise(path, target, ranges=ranges, passes=())
    one, other = open_session(target), open_session(path)
    pairs = [(one.run(["y0"], feed)[0], other.run(["y0"], feed)[0]) for feed in feeds]
    given, expected = (numpy.stack(part).astype(numpy.float64) for part in zip(*pairs, strict=True))
    return ((given - expected) ** 2).sum() / (expected**2).sum()


def test_a_range_loses_least(tmp_path):
    """No range on a grid of a hundred by a hundred has a smaller error, where each channel counts as its weights do."""
    path, feeds = graph_of(tmp_path / "g.onnx", weight_of("w", 40)), feeds_of()
    chosen = find_ranges(path, feeds)["product0"]
    rows = numpy.concatenate([feed["x"].reshape(-1, INPUTS) for feed in feeds]).astype(numpy.float64)
    matter = (numpy_helper.to_array(weight_of("w", 40)).astype(numpy.float64) ** 2).sum(1)

    def error(low, high):
        step = (high - low) / 255
        zero = round(-low / step)
        rounded = ((rows / step + zero).round().clip(0, 255) - zero) * step
        return ((rounded - rows) ** 2 * matter).sum()

    grid = numpy.linspace(0.05, 1.2, 100)
    least = min(error(low * rows.min(), high * rows.max()) for low in grid for high in grid)
    assert error(chosen.low, chosen.high) < 1.1 * least
    assert chosen.low < 0 < chosen.high
    assert 0 <= chosen.zero <= 255


def test_each_call_of_a_shared_weight_has_a_range_of_its_own(tmp_path):
    weight = weight_of("w", 40)
    path, feeds = graph_of(tmp_path / "g.onnx", weight, weight), feeds_of()
    ranges = find_ranges(path, feeds)
    assert ranges["product1"].high == pytest.approx(ranges["product0"].high / 2, rel=1e-3)
    quantise(path, tmp_path / "int8.onnx", ranges=ranges, passes=())
    stored = onnx.load(tmp_path / "int8.onnx").graph.initializer
    assert sum(tensor.data_type == TensorProto.INT8 for tensor in stored) == 1


def test_a_range_counts_channels_by_their_weights(tmp_path):
    """It cuts off the values of a wide channel that the product hardly reads."""
    scale = numpy.ones(INPUTS)
    scale[3] = 2
    values = numpy_helper.to_array(weight_of("w", 40)).copy()
    values[3] *= 0.02
    feeds = feeds_of(scale)
    chosen = find_ranges(graph_of(tmp_path / "g.onnx", numpy_helper.from_array(values, "w")), feeds)["product0"]
    rows = numpy.concatenate([feed["x"].reshape(-1, INPUTS) for feed in feeds])
    others = numpy.delete(rows, 3, axis=1)
    assert chosen.outliers.divisor_I is None
    assert rows.min() < 1.3 * others.min() <= chosen.low
    assert chosen.high <= 1.3 * others.max() < rows.max()


@pytest.mark.parametrize("form", ["int8", "qdq"])
def test_each_column_of_a_weight_has_the_scale_of_its_largest_value(form, tmp_path):
    values = numpy_helper.to_array(weight_of("w", 40)) * numpy.linspace(0.1, 3, 40, dtype=numpy.float32)
    path = graph_of(tmp_path / "g.onnx", numpy_helper.from_array(values, "w"))
    # As it reaches, without anything done to outliers.
    ranges = {"product0": Range(-3.0, 3.0)}
    quantise(path, tmp_path / "int8.onnx", ranges=ranges, form=form, passes=())
    stored = [numpy_helper.to_array(tensor) for tensor in onnx.load(tmp_path / "int8.onnx").graph.initializer]
    (levels,) = (array for array in stored if array.shape == values.shape)
    (scales,) = (array for array in stored if array.shape == values.shape[1:])
    numpy.testing.assert_allclose(scales, abs(values).max(0) / 127, rtol=1e-6)
    assert levels.dtype == numpy.int8
    assert (abs(levels * scales - values) <= scales * 0.50001).all()


@pytest.mark.parametrize(("outputs", "way"), [(40, "divisor_I"), (6, "channels_K")])
def test_outliers(tmp_path, outputs, way):
    """A channel of a hundred times the width of the others: of wide products it is multiplied in fp32, else the input is divided."""
    scale = numpy.ones(INPUTS)
    scale[7] = 100
    values = numpy_helper.to_array(weight_of("w", outputs)).copy()
    values[7] /= 100
    path = graph_of(tmp_path / "g.onnx", numpy_helper.from_array(values, "w"))
    feeds = feeds_of(scale)
    ranges = find_ranges(path, feeds)
    outliers = ranges["product0"].outliers
    assert getattr(outliers, way) is not None
    if way == "channels_K":
        assert 7 in outliers.channels_K.tolist()
    else:
        assert int(outliers.divisor_I.argmax()) == 7
    plain = {name: type(range_)(float(min(f["x"].min() for f in feeds)), float(max(f["x"].max() for f in feeds))) for name, range_ in ranges.items()}  # fmt: skip
    with_them = error_of(path, tmp_path / "with.onnx", feeds, ranges)
    without = error_of(path, tmp_path / "without.onnx", feeds, plain)
    assert with_them < 0.01 * without
    assert with_them < 1e-3


def test_a_shared_weight_shares_what_is_done_to_outliers(tmp_path):
    scale = numpy.ones(INPUTS)
    scale[3] = 60
    weight = weight_of("w", 40)
    ranges = find_ranges(graph_of(tmp_path / "g.onnx", weight, weight), feeds_of(scale))
    one, other = (ranges[name].outliers.divisor_I for name in ("product0", "product1"))
    assert one is not None
    assert torch.equal(one, other)
