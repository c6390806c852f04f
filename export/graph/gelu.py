"""GELU as one operator, where it was traced into its formula."""

import numpy
import onnx_ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from hf_albert_plus.export.graph.rewrites import only_reader


def fuse_gelu(model: onnx_ir.Model) -> int:
    """Writes `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))` as `Gelu` with `approximate="tanh"` (opset 20).

    Returns:
        The number of formulas replaced.
    """
    fused = 0
    for tanh in [node for node in model.graph if node.op_type == "Tanh"]:
        shifted = only_reader(tanh.outputs[0], "Add")
        product = None if shifted is None else only_reader(shifted.outputs[0], "Mul")
        if shifted is None or product is None or _constant_of(shifted) != 1.0:
            continue
        half = next((v.producer() for v in product.inputs if v is not None and v is not shifted.outputs[0]), None)
        if half is None or half.op_type != "Mul" or not _near(_constant_of(half), 0.5):
            continue
        x = _computed_input(half)
        if x is None or not _is_tanh_argument(tanh.inputs[0], x):
            continue
        gelu = onnx_ir.node("Gelu", [x], attributes={"approximate": "tanh"}, name=f"{product.name}_gelu")
        was, now = product.outputs[0], gelu.outputs[0]
        now.name, now.type, now.shape = f"{was.name}_gelu", was.type, was.shape
        model.graph.insert_after(product, gelu)
        onnx_ir.convenience.replace_all_uses_with(was, now)
        fused += 1
    RemoveUnusedNodesPass()(model)
    return fused


def _is_tanh_argument(value: onnx_ir.Value | None, x: onnx_ir.Value) -> bool:
    """Whether a value is √(2/π) (x + 0.044715 x³)."""
    scaled = None if value is None else value.producer()
    if scaled is None or scaled.op_type != "Mul" or not _near(_constant_of(scaled), numpy.sqrt(2 / numpy.pi)):
        return False
    inner = _computed_input(scaled)
    total = None if inner is None else inner.producer()
    if total is None or total.op_type != "Add" or x not in total.inputs:
        return False
    cubic = next((v.producer() for v in total.inputs if v is not None and v is not x), None)
    if cubic is None or cubic.op_type != "Mul" or not _near(_constant_of(cubic), 0.044715):
        return False
    cubed = _computed_input(cubic)
    cube = None if cubed is None else cubed.producer()
    return cube is not None and cube.op_type == "Pow" and cube.inputs[0] is x and _constant_of(cube) == 3.0


def _constant_of(node: onnx_ir.Node) -> float | None:
    """The scalar among a node's inputs."""
    for value in node.inputs:
        if value is not None and value.const_value is not None and value.const_value.size == 1:
            return float(value.const_value.numpy().ravel()[0])
    return None


def _computed_input(node: onnx_ir.Node) -> onnx_ir.Value | None:
    return next((value for value in node.inputs if value is not None and value.const_value is None), None)


def _near(number: float | None, wanted: float) -> bool:
    return number is not None and abs(number - wanted) < 1e-5
