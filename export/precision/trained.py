"""Graphs of a model that was trained for few bits (`albert-plus qat`), whose products and tables are rewritten on the grids of its scheme:
levels and ranges are those of the training, so that what was trained is what runs.

The axes of a product are O, its outputs, and I, its inputs.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import onnx
import onnx_ir
import torch
from onnx import helper
from onnx_ir.passes.common import RemoveUnusedNodesPass

from hf_albert_plus.compression.quantisation.packed_weights import pack, unsigned_levels
from hf_albert_plus.compression.quantisation.rounding import activation_scale, round_weight
from hf_albert_plus.compression.quantisation.scheme import Scheme
from hf_albert_plus.engines.artefacts import TrainedForm
from hf_albert_plus.engines.onnx_engine import open_session
from hf_albert_plus.export.graph.rewrites import store
from hf_albert_plus.export.graph.tracing import save_graph
from hf_albert_plus.export.precision.int8 import QuantisedGraph, check_counts, count_products, prepared


@dataclass(frozen=True)
class TrainedGraph(QuantisedGraph):
    """A graph on the grids of its scheme.

    Attributes:
        products_of_bits: quantised products by their bits.
    """

    ranges: str
    products_of_bits: dict[str, int]


@dataclass(frozen=True)
class PackedGraph(TrainedGraph):
    """One whose weights are packed.

    Attributes:
        kernel_bits: the bits that onnxruntime multiplies in, by the scheme's.
    """

    kernel_bits: dict[str, int]


def write_trained(
    source: Path, target: Path, *, scheme: Scheme, form: TrainedForm, keep_fp32: Collection[str] = ()
) -> TrainedGraph:
    """Writes an fp32 graph with weights, embedding tables and the inputs of products as their scheme has them.

    Args:
        source: an fp32 graph from `export_graph`.
        form: `int8`, the products that the dynamic graph has, with steps that are known: the operator that onnxruntime makes of a
            dynamic product, its scales and its bias, and does not make by itself where the steps are constants; `qdq`, standard
            operators around a MatMul in floating point, symmetric, embedding tables in fp32; `nbits`, onnxruntime's product of packed weights.
        keep_fp32: names of products to leave as they are.

    Raises:
        InvalidInput: a form that the scheme's bits do not run in.
        QuantisationError: another weight product stayed in fp32; the target is removed.
    """
    if form != "nbits":
        scheme.check_int8()
    names = count_products(onnx.load(source).graph).fp32
    model = prepared(source, keep_fp32=keep_fp32)
    writer = TrainedProducts(model, scheme)
    write: dict[TrainedForm, Callable[[onnx_ir.Node, str], None]] = {
        "int8": writer.int8, "qdq": writer.qdq, "nbits": writer.nbits,
    }  # fmt: skip
    for node in [node for node in model.graph if node.op_type == "MatMul"]:
        name = node.name or ""
        if name in scheme.products and name not in keep_fp32:
            write[form](node, name)
    for node in [node for node in model.graph if node.op_type == "Gather"]:
        writer.table(node, as_values=form == "qdq")
    RemoveUnusedNodesPass()(model)
    if form != "qdq":
        model.graph.opset_imports["com.microsoft"] = 1
    save_graph(model, target)
    counts = check_counts(target, names, keep_fp32=keep_fp32)
    bits = [scheme.grid_of(name).bits for name in names if name not in keep_fp32]
    graph: dict[str, Any] = {
        **vars(counts),
        "ranges": "as trained",
        "products_of_bits": {str(width): bits.count(width) for width in sorted(set(bits))},
    }
    if form == "nbits":
        return PackedGraph(**graph, kernel_bits={str(width): kernel_bits(width) for width in sorted(set(bits))})
    return TrainedGraph(**graph)


_CONTRIB = "com.microsoft"
# Lengths of the blocks of onnxruntime's n-bit product.
_BLOCKS = (16, 32, 64, 128, 256)


@dataclass
class TrainedProducts:
    """Rewrites nodes of one graph, in the order in which they run; what several of them read is stored and computed once."""

    model: onnx_ir.Model
    scheme: Scheme
    _made: dict[str, onnx_ir.Value] = field(default_factory=dict)

    def int8(self, node: onnx_ir.Node, name: str) -> None:
        """`MatMulIntegerToFloat` of unsigned inputs, as the dynamic graph has them, with the bias."""
        scale, zero = self._step(name, numpy.uint8(128))
        levels, weight_scale = self._weight(node, name)
        inputs = [self._levels(node, scale, zero), levels, scale, weight_scale, zero, None]
        self._with_bias(node, "MatMulIntegerToFloat", inputs)

    def qdq(self, node: onnx_ir.Node, name: str) -> None:
        """QuantizeLinear and DequantizeLinear before a MatMul, all zeros 0."""
        levels, weight_scale = self._weight(node, name)
        weight = self._once(node, "DequantizeLinear", [levels, weight_scale], {"axis": 1})
        node.replace_input_with(0, self._quantise_dequantise(node, name, numpy.int8(0)))
        node.replace_input_with(1, weight)

    def nbits(self, node: onnx_ir.Node, name: str) -> None:
        """`MatMulNBits`. Its blocks are parts of a row, which all have the row's scale and zero here."""
        grid, key = self.scheme.grid_of(name), _weight_of(node).name
        bits = kernel_bits(grid.bits)
        level_OI, scale_O, zero_O = unsigned_levels(_values(_weight_of(node)).T, grid)
        rows, columns = level_OI.shape
        block = min(_BLOCKS, key=lambda size: -(-columns // size) * (size * bits // 8 + 4))
        blocks = -(-columns // block)
        # What fills the last block up meets no input.
        filled_OI = numpy.pad(level_OI, ((0, 0), (0, blocks * block - columns)))
        inputs = [
            self._quantise_dequantise(node, name, numpy.uint8(128)),
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
        grid = None if table is None else self.scheme.tables.get((table.name or "").removesuffix(".weight"))
        if table is None or grid is None:
            return
        if as_values:
            values = round_weight(_values(table), grid).numpy()
            node.replace_input_with(0, store(self.model, f"{table.name}.values", values))
            return
        level_OI, scale_O, _ = unsigned_levels(_values(table), grid)
        inputs = [store(self.model, f"{table.name}.levels", _signed(level_OI)), *node.inputs[1:]]
        lookup = onnx_ir.node("Gather", inputs, name=node.name, attributes=dict(node.attributes))
        scale = store(self.model, f"{table.name}.scale", scale_O[0])
        _replace(self.model, node, [lookup, onnx_ir.node("DequantizeLinear", [lookup.outputs[0], scale])])

    def _weight(self, node: onnx_ir.Node, name: str) -> tuple[onnx_ir.Value, onnx_ir.Value]:
        """Levels `[I, O]`, int8, and scales `[O]`."""
        weight = _weight_of(node)
        level_OI, scale_O, _ = unsigned_levels(_values(weight).T, self.scheme.grid_of(name))
        return (
            store(self.model, f"{weight.name}.levels", _signed(level_OI).T),
            store(self.model, f"{weight.name}.scale", scale_O),
        )

    def _step(self, name: str, zero: Any) -> tuple[onnx_ir.Value, onnx_ir.Value]:
        """The step and the zero of a product's input, scalars."""
        scale = activation_scale(torch.tensor(self.scheme.products[name].amax, dtype=torch.float32)).numpy()
        return store(self.model, f"step {scale.item()!r}", scale), store(self.model, f"zero {zero}", numpy.array(zero))

    def _levels(self, node: onnx_ir.Node, scale: onnx_ir.Value, zero: onnx_ir.Value) -> onnx_ir.Value:
        return self._once(node, "QuantizeLinear", [node.inputs[0], scale, zero])

    def _quantise_dequantise(self, node: onnx_ir.Node, name: str, zero: Any) -> onnx_ir.Value:
        scale, stored_zero = self._step(name, zero)
        return self._once(node, "DequantizeLinear", [self._levels(node, scale, stored_zero), scale, stored_zero])

    def _once(
        self,
        before: onnx_ir.Node,
        operator: str,
        inputs: Sequence[onnx_ir.Value | None],
        attributes: dict[str, Any] | None = None,
    ) -> onnx_ir.Value:
        """The output of a node before the first that reads it."""
        key = " ".join([operator, *(str(value.name) for value in inputs if value is not None)])
        if key not in self._made:
            node = onnx_ir.node(operator, inputs, attributes=attributes)
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
        last, bias = node, None
        readers = [reader for reader, _ in node.outputs[0].uses()]
        if len(readers) == 1 and readers[0].op_type == "Add":
            others = [value for value in readers[0].inputs if value is not node.outputs[0]]
            if len(others) == 1 and others[0] is not None and others[0].const_value is not None:
                last, bias = readers[0], others[0]
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


def _replace(model: onnx_ir.Model, node: onnx_ir.Node, nodes: Sequence[onnx_ir.Node]) -> None:
    """Puts nodes in the place of one; the last makes what it made."""
    was, now = node.outputs[0], nodes[-1].outputs[0]
    model.graph.insert_before(node, nodes)
    name = was.name
    onnx_ir.convenience.replace_all_uses_with(was, now, replace_graph_outputs=True)
    now.name, now.type, now.shape = name, was.type, was.shape
    model.graph.remove(node, safe=True)
