"""Where only the first token of the last hidden state is read, the last layer computes no other.

A classifier reads one row of `[batch, sequence, hidden]`. Its last layer still needs keys and values of every token, but
queries, attention output, feed-forward network and norms of the first one alone. Exact, for any encoder.
"""

from dataclasses import dataclass

import onnx_ir

from hf_albert_plus.export.graph.rewrites import store_integers

_ELEMENTWISE = {
    "Add", "Cast", "Clip", "Div", "Erf", "Gelu", "Identity", "Max", "Min", "Mul", "Neg", "Pow", "Relu", "Sigmoid",
    "Sqrt", "Sub", "Sum", "Tanh", "Where",
}  # fmt: skip


@dataclass(frozen=True)
class _Read:
    """One input of one node that needs index 0 of an axis alone."""

    node: onnx_ir.Node
    index: int
    axis: int


def keep_first_token(model: onnx_ir.Model) -> int:
    """Moves the selection of the first token up through every operator that treats tokens one by one.

    Returns:
        The number of nodes that now compute one token instead of all; 0 where the whole sequence is read.
    """
    reads: dict[onnx_ir.Value, list[_Read]] = {}
    outputs = set(model.graph.outputs)
    narrowed = 0
    for node in reversed(list(model.graph)):
        if _selects_first(node):
            hidden = _input(node, 0)
            reads.setdefault(hidden, []).append(_Read(node, 0, 1))
            continue
        if len(node.outputs) != 1:
            continue
        value = node.outputs[0]
        wanted = reads.pop(value, [])
        if not wanted:
            continue
        axes = {read.axis for read in wanted}
        needed_in_full = len(wanted) < len(value.uses()) or value in outputs or len(axes) > 1
        inputs = None if needed_in_full else _inputs_to_narrow(node, wanted[0].axis)
        if inputs is None:
            _select(model, value, wanted)
            continue
        axis = wanted[0].axis
        if node.op_type == "Reshape":
            _reshape_one_token(model, node, axis)
        value.shape = onnx_ir.Shape([1 if i == axis else dim for i, dim in enumerate(value.shape or ())])
        for index, position in inputs:
            reads.setdefault(_input(node, index), []).append(_Read(node, index, position))
        narrowed += 1
    for value, wanted in reads.items():  # graph inputs and initialisers
        _select(model, value, wanted)
    return narrowed


def _selects_first(node: onnx_ir.Node) -> bool:
    """Whether a node is `hidden[:, 0]`."""
    if node.op_type != "Gather" or node.attributes.get_int("axis", 0) != 1:
        return False
    index = _input(node, 1).const_value
    return index is not None and index.numpy().ndim == 0 and int(index.numpy()) == 0


def _inputs_to_narrow(node: onnx_ir.Node, axis: int) -> list[tuple[int, int]] | None:
    """Which inputs a node needs at index 0 alone, and of which axis, to give index 0 of an axis of its output; None where
    it mixes what lies along that axis."""
    rank = _rank(node.outputs[0])
    if rank is None:
        return None
    if node.op_type in _ELEMENTWISE:
        wanted = []
        for index, value in enumerate(node.inputs):
            own = None if value is None else _rank(value)
            if value is None or own is None:
                return None
            position = axis - (rank - own)
            if position >= 0 and value.shape is not None and value.shape[position] != 1:
                wanted.append((index, position))
        return wanted
    if node.op_type in {"LayerNormalization", "Softmax"}:
        return [(0, axis)] if node.attributes.get_int("axis", -1) in (-1, rank - 1) and axis < rank - 1 else None
    if node.op_type == "MatMul":
        left = _rank(_input(node, 0))
        return [(0, left - 2)] if axis == rank - 2 and left == rank else None
    if node.op_type == "Transpose":
        permutation = node.attributes.get_ints("perm", list(range(rank))[::-1])
        return [(0, permutation[axis])]
    if node.op_type == "Reshape":
        return [(0, axis)] if _keeps_axes(node, axis) else None
    return None


def _keeps_axes(node: onnx_ir.Node, axis: int) -> bool:
    """Whether a Reshape leaves the axes up to this one as they are, with a shape put together from single dimensions."""
    before, after = _input(node, 0).shape, node.outputs[0].shape
    target = _input(node, 1).producer()
    if before is None or after is None or target is None or target.op_type != "Concat" or axis >= len(before):
        return False
    return [str(d) for d in before[: axis + 1]] == [str(d) for d in after[: axis + 1]] and len(target.inputs) == len(
        after
    )


def _reshape_one_token(model: onnx_ir.Model, node: onnx_ir.Node, axis: int) -> None:
    """Gives a Reshape a target with 1 on one axis."""
    target = _input(node, 1).producer()
    assert target is not None
    dims = [*target.inputs[:axis], store_integers(model, "one_token", [1]), *target.inputs[axis + 1 :]]
    shape = onnx_ir.node("Concat", dims, attributes={"axis": 0}, name=f"{node.name}_one_token")
    shape.outputs[0].name = f"{node.name}_one_token"
    model.graph.insert_before(node, shape)
    node.replace_input_with(1, shape.outputs[0])


def _select(model: onnx_ir.Model, value: onnx_ir.Value, wanted: list[_Read]) -> None:
    """Puts a selection of index 0 between a value that stays whole and those that read only that."""
    for axis in sorted({read.axis for read in wanted}):
        readers = [read for read in wanted if read.axis == axis]
        if all(_selects_first(read.node) for read in readers):
            continue
        name = f"{value.name}_first_{axis}"
        node = onnx_ir.node(
            "Gather", [value, store_integers(model, "first_token", [0])], attributes={"axis": axis}, name=f"node_{name}"
        )
        selected = node.outputs[0]
        selected.name, selected.type = name, value.type
        selected.shape = onnx_ir.Shape([1 if i == axis else dim for i, dim in enumerate(value.shape or ())])
        producer = value.producer()
        if producer is None:
            model.graph.insert_before(model.graph[0], node)
        else:
            model.graph.insert_after(producer, node)
        for read in readers:
            read.node.replace_input_with(read.index, selected)


def _input(node: onnx_ir.Node, index: int) -> onnx_ir.Value:
    value = node.inputs[index]
    assert value is not None, f"{node.op_type} without input {index}"
    return value


def _rank(value: onnx_ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)
