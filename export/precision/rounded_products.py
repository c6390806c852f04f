"""Rewrites the weight products and embedding tables of a graph on given grids, with steps of their inputs that are known: nothing that a
graph computes depends on what else is in its batch.

The axes of a product are O, its outputs, and I, its inputs.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy
import onnx
import onnx_ir
import torch
from onnx import helper
from onnx_ir.passes.common import RemoveUnusedNodesPass

from hf_albert_plus.compression.quantisation.packed_weights import pack, unsigned_levels
from hf_albert_plus.compression.quantisation.rounding import Grid, round_weight
from hf_albert_plus.engines.artefacts import TrainedForm
from hf_albert_plus.engines.onnx_session import open_session
from hf_albert_plus.export.graph.rewrites import store
from hf_albert_plus.export.graph.tracing import INT8_PASSES, ROUNDED_PASSES, save_graph
from hf_albert_plus.export.precision.input_ranges import NO_OUTLIERS, Outliers
from hf_albert_plus.export.precision.products import CHANNELS, QuantisedGraph, check_counts, count_products, prepared


@dataclass(frozen=True)
class Step:
    """How a product's input becomes levels.

    Attributes:
        scale: what one level is.
        zero: the level of 0, from 0 to 255.
        outliers: what is done to channels that reach far beyond the others.
    """

    scale: float
    zero: int
    outliers: Outliers = NO_OUTLIERS


@dataclass(frozen=True)
class Rounding:
    """What a graph is rounded to.

    Attributes:
        steps: product -> the step of its input.
        weights: product -> the grid of its weight.
        table: what a Gather reads -> its grid; None where it stays as it is.
    """

    steps: Mapping[str, Step]
    weights: Mapping[str, Grid]
    table: Callable[[onnx_ir.Value], Grid | None]


def write_rounded(
    source: Path,
    target: Path,
    rounding: Rounding,
    *,
    form: TrainedForm,
    keep_fp32: Collection[str] = (),
    passes: Collection[str] | None = None,
) -> QuantisedGraph:
    """Writes an fp32 graph with weights, embedding tables and the inputs of products on their grids.

    Args:
        source: an fp32 graph from `export_graph`.
        form: `int8`, the operator that onnxruntime makes of a dynamic product, its scales and its bias, and does not make by itself where
            the steps are constants; `qdq`, standard operators around a MatMul in floating point, symmetric, embedding tables in fp32;
            `nbits`, onnxruntime's product of packed weights.
        keep_fp32: names of products to leave as they are.
        passes: names of the graph passes to run first, by default those that are on for the form.

    Raises:
        QuantisationError: another weight product stayed in fp32; the target is removed.
    """
    names = count_products(onnx.load(source).graph).fp32
    if passes is None:
        passes = INT8_PASSES if form == "int8" else ROUNDED_PASSES
    model = prepared(source, keep_fp32=keep_fp32, passes=passes)
    writer = RoundedProducts(model, rounding)
    write: dict[TrainedForm, Callable[[onnx_ir.Node, str], None]] = {
        "int8": writer.int8, "qdq": writer.qdq, "nbits": writer.nbits,
    }  # fmt: skip
    for node in [node for node in model.graph if node.op_type == "MatMul"]:
        name = node.name or ""
        if name in rounding.steps and name not in keep_fp32:
            write[form](node, name)
    for node in [node for node in model.graph if node.op_type == "Gather"]:
        writer.table(node, as_values=form == "qdq")
    RemoveUnusedNodesPass()(model)
    if form != "qdq":
        model.graph.opset_imports["com.microsoft"] = 1
    save_graph(model, target)
    return check_counts(target, names, keep_fp32=keep_fp32)


_CONTRIB = "com.microsoft"
# Lengths of the blocks of onnxruntime's n-bit product.
_BLOCKS = (16, 32, 64, 128, 256)


@dataclass
class RoundedProducts:
    """Rewrites nodes of one graph, in the order in which they run; what several of them read is stored and computed once."""

    model: onnx_ir.Model
    rounding: Rounding
    _made: dict[str, onnx_ir.Value] = field(default_factory=dict)

    def int8(self, node: onnx_ir.Node, name: str) -> None:
        """`MatMulIntegerToFloat` of unsigned inputs, as the dynamic graph has them, with the bias."""
        scale, zero = self._step(name)
        levels, weight_scale = self._weight(node, name)
        # onnxruntime 1.23 lacks the standard operator in operator set 23; it has its own beside it.
        rounded = self._levels(node, name, scale, zero, domain=_CONTRIB)
        inputs = [rounded, levels, scale, weight_scale, zero, None]
        self._add_channels(node, name)
        self._with_bias(node, "MatMulIntegerToFloat", inputs)

    def _add_channels(self, node: onnx_ir.Node, name: str) -> None:
        """Adds to what a product and its bias give what some channels give in fp32, where there are such channels."""
        channels_K = self.rounding.steps[name].outliers.channels_K
        if channels_K is None:
            return
        weight = _weight_of(node)
        numbers = store(self.model, f"{weight.name}.channels", channels_K.numpy())
        rows = store(self.model, f"{weight.name}.rows", _values(weight)[channels_K].numpy())
        chosen = onnx_ir.node("Gather", [node.inputs[0], numbers], attributes={"axis": -1})
        product = onnx_ir.node("MatMul", [chosen.outputs[0], rows], name=name + CHANNELS)
        reader = _bias_after(node)
        last = node if reader is None else reader
        total = onnx_ir.node("Add", [last.outputs[0], product.outputs[0]])
        _insert_after(self.model, last, [chosen, product, total])

    def qdq(self, node: onnx_ir.Node, name: str) -> None:
        """QuantizeLinear and DequantizeLinear before a MatMul, all zeros 0."""
        levels, weight_scale = self._weight(node, name)
        weight = self._once(node, "DequantizeLinear", [levels, weight_scale], {"axis": 1})
        self._add_channels(node, name)
        node.replace_input_with(0, self._quantise_dequantise(node, name, signed=True))
        node.replace_input_with(1, weight)

    def nbits(self, node: onnx_ir.Node, name: str) -> None:
        """`MatMulNBits`. Its blocks are parts of a row, which all have the row's scale and zero here."""
        grid, key = self.rounding.weights[name], _weight_of(node).name
        bits = kernel_bits(grid.bits)
        level_OI, scale_O, zero_O = unsigned_levels(_values(_weight_of(node)).T, grid)
        rows, columns = level_OI.shape
        block = min(_BLOCKS, key=lambda size: -(-columns // size) * (size * bits // 8 + 4))
        blocks = -(-columns // block)
        # What fills the last block up meets no input.
        filled_OI = numpy.pad(level_OI, ((0, 0), (0, blocks * block - columns)))
        inputs = [
            self._quantise_dequantise(node, name),
            store(self.model, f"{key}.levels", pack(filled_OI, bits).reshape(rows, blocks, block * bits // 8)),
            store(self.model, f"{key}.scale", scale_O[:, None].repeat(blocks, axis=1)),
            store(self.model, f"{key}.zero", pack(zero_O[:, None].repeat(blocks, axis=1), bits)),
            None,
        ]
        self._with_bias(node, "MatMulNBits", inputs, {"K": columns, "N": rows, "bits": bits, "block_size": block})

    def table(self, node: onnx_ir.Node, *, as_values: bool) -> None:
        """Rows of an embedding are looked up as levels, then scaled; or, for runtimes that look up nothing in int8, as the values that
        levels stand for."""
        table = node.inputs[0]
        grid = None if table is None or table.const_value is None else self.rounding.table(table)
        if table is None or grid is None:
            return
        if as_values:
            values = round_weight(_values(table), grid).numpy()
            node.replace_input_with(0, store(self.model, f"{table.name}.values", values))
            return
        level_OI, scale_O, _ = unsigned_levels(_values(table), grid)
        attributes = dict(node.attributes)
        levels = store(self.model, f"{table.name}.levels", _signed(level_OI))
        lookup = onnx_ir.node("Gather", [levels, *node.inputs[1:]], name=node.name, attributes=attributes)
        if grid.groups == 1:
            scale = store(self.model, f"{table.name}.scale", scale_O[0])
            _replace(self.model, node, [lookup, onnx_ir.node("DequantizeLinear", [lookup.outputs[0], scale])])
            return
        scales = store(self.model, f"{table.name}.scale", scale_O[:, None])
        looked_up = onnx_ir.node("Gather", [scales, *node.inputs[1:]], attributes=attributes)
        values_ = onnx_ir.node("Cast", [lookup.outputs[0]], attributes={"to": onnx_ir.DataType.FLOAT})
        scaled = onnx_ir.node("Mul", [values_.outputs[0], looked_up.outputs[0]])
        _replace(self.model, node, [lookup, looked_up, values_, scaled])

    def _weight(self, node: onnx_ir.Node, name: str) -> tuple[onnx_ir.Value, onnx_ir.Value]:
        """Levels `[I, O]`, int8, and scales `[O]`."""
        weight = _weight_of(node)
        weight_IO = self.rounding.steps[name].outliers.of_weight(_values(weight))
        level_OI, scale_O, _ = unsigned_levels(weight_IO.T, self.rounding.weights[name])
        return (
            store(self.model, f"{weight.name}.levels", _signed(level_OI).T),
            store(self.model, f"{weight.name}.scale", scale_O),
        )

    def _step(self, name: str, *, signed: bool = False) -> tuple[onnx_ir.Value, onnx_ir.Value]:
        """The step and the zero of a product's input, scalars; the zero of signed levels is 0."""
        step = self.rounding.steps[name]
        scale = numpy.array(step.scale, dtype=numpy.float32)
        zero: Any = numpy.int8(step.zero - 128) if signed else numpy.uint8(step.zero)
        return store(self.model, f"step {scale.item()!r}", scale), store(
            self.model, f"zero {zero}{' signed' if signed else ''}", numpy.array(zero)
        )

    def _levels(
        self, node: onnx_ir.Node, name: str, scale: onnx_ir.Value, zero: onnx_ir.Value, *, domain: str = ""
    ) -> onnx_ir.Value:
        value, divisor_I = node.inputs[0], self.rounding.steps[name].outliers.divisor_I
        if divisor_I is not None:
            factor = (1 / divisor_I).numpy()
            key = f"divisor {sha256(factor.tobytes()).hexdigest()[:16]}"
            value = self._once(node, "Mul", [value, store(self.model, key, factor)])
        return self._once(node, "QuantizeLinear", [value, scale, zero], domain=domain)

    def _quantise_dequantise(self, node: onnx_ir.Node, name: str, *, signed: bool = False) -> onnx_ir.Value:
        scale, zero = self._step(name, signed=signed)
        return self._once(node, "DequantizeLinear", [self._levels(node, name, scale, zero), scale, zero])

    def _once(
        self,
        before: onnx_ir.Node,
        operator: str,
        inputs: Sequence[onnx_ir.Value | None],
        attributes: dict[str, Any] | None = None,
        domain: str = "",
    ) -> onnx_ir.Value:
        """The output of a node before the first that reads it."""
        key = " ".join([operator, *(str(value.name) for value in inputs if value is not None)])
        if key not in self._made:
            node = onnx_ir.node(operator, inputs, attributes=attributes, domain=domain)
            node.outputs[0].name = key
            self.model.graph.insert_before(before, node)
            self._made[key] = node.outputs[0]
        return self._made[key]

    def _with_bias(
        self,
        node: onnx_ir.Node,
        operator: str,
        inputs: list[onnx_ir.Value | None],
        attributes: dict[str, Any] | None = None,
    ) -> None:
        """Puts an operator in the place of a product, and of the sum with its bias where one follows."""
        reader = _bias_after(node)
        last = node if reader is None else reader
        bias = None if reader is None else next(v for v in reader.inputs if v is not node.outputs[0])
        product = onnx_ir.node(
            operator,
            [*inputs, bias] if bias is not None else inputs,
            attributes=attributes,
            domain=_CONTRIB,
            name=node.name,
        )
        _replace(self.model, last, [product])
        if last is not node:
            self.model.graph.remove(node, safe=True)


@cache
def kernel_bits(bits: int) -> int:
    """The bits of the narrowest n-bit product that holds as many and that the installed onnxruntime has for a CPU."""
    return next(width for width in (2, 4, 8) if width >= bits and _has_kernel(width))


def _has_kernel(bits: int) -> bool:
    """Whether a product of so many bits opens."""
    attributes: dict[str, Any] = {"K": 16, "N": 1, "bits": bits, "block_size": 16}
    node = helper.make_node("MatMulNBits", ["x", "levels", "scale"], ["y"], domain=_CONTRIB, **attributes)
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size]) for name, size in (("x", 16), ("y", 1))
    ]
    weights: dict[str, numpy.ndarray] = {
        "levels": numpy.zeros((1, 1, 2 * bits), numpy.uint8),
        "scale": numpy.ones((1, 1), numpy.float32),
    }
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph([node], "kernel", ports[:1], ports[1:], stored)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_CONTRIB, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    try:
        open_session(model.SerializeToString())
    except Exception:  # onnxruntime raises a class of its own for what it cannot open
        return False
    return True


def _bias_after(node: onnx_ir.Node) -> onnx_ir.Node | None:
    """The sum of a product with a stored bias, where nothing else reads the product."""
    readers = [reader for reader, _ in node.outputs[0].uses()]
    if len(readers) != 1 or readers[0].op_type != "Add":
        return None
    others = [value for value in readers[0].inputs if value is not node.outputs[0]]
    is_bias = len(others) == 1 and others[0] is not None and others[0].const_value is not None
    return readers[0] if is_bias else None


def _weight_of(node: onnx_ir.Node) -> onnx_ir.Value:
    weight = node.inputs[1]
    if weight is None or weight.const_value is None:
        raise ValueError(f"{node.name} reads no stored weight")
    return weight


def _values(stored: onnx_ir.Value) -> torch.Tensor:
    if stored.const_value is None:
        raise ValueError(f"{stored.name} is not stored in the graph")
    return torch.from_numpy(stored.const_value.numpy().copy())


def _signed(level_OI: numpy.ndarray) -> numpy.ndarray:
    """Levels around 128 -> around 0, int8."""
    return (level_OI.astype(numpy.int16) - 128).astype(numpy.int8)


def _insert_after(model: onnx_ir.Model, node: onnx_ir.Node, nodes: Sequence[onnx_ir.Node]) -> None:
    """Puts nodes behind one, the last of which reads what it makes, for all that read that."""
    was, now = node.outputs[0], nodes[-1].outputs[0]
    onnx_ir.convenience.replace_all_uses_with(was, now, replace_graph_outputs=True)
    nodes[-1].replace_input_with(0, was)
    model.graph.insert_after(node, nodes)
    now.name, was.name, now.type, now.shape = was.name, f"{was.name}.in_int8", was.type, was.shape


def _replace(model: onnx_ir.Model, node: onnx_ir.Node, nodes: Sequence[onnx_ir.Node]) -> None:
    """Puts nodes in the place of one; the last makes what it made."""
    was, now = node.outputs[0], nodes[-1].outputs[0]
    model.graph.insert_before(node, nodes)
    name = was.name
    onnx_ir.convenience.replace_all_uses_with(was, now, replace_graph_outputs=True)
    now.name, now.type, now.shape = name, was.type, was.shape
    model.graph.remove(node, safe=True)
