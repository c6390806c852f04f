"""Sums over tokens that are the same to the last bit however many rows a batch has and however far they are padded.

onnxruntime adds the tokens of one row in their order, and those of several rows in another one. The last bits differ, and where a sum is
rounded to levels afterwards, now and then a level does.
"""

import onnx_ir

from hf_albert_plus.export.graph.rewrites import store_integers


def add_in_order(model: onnx_ir.Model) -> int:
    """Writes sums over the axis 1 of `[batch, sequence, hidden]` as sums over the first axis of `[sequence, batch · hidden]`, whose columns
    onnxruntime adds one token after the other. Padding comes last and adds zeros.

    Returns:
        The number of sums rewritten.
    """
    written = 0
    for node in [node for node in model.graph if node.op_type == "ReduceSum"]:
        value, summed = node.inputs[0], node.outputs[0]
        width = value.shape[2] if value is not None and value.shape is not None and len(value.shape) == 3 else None
        if value is None or not isinstance(width, int) or not _is_over_tokens(node):
            continue
        new = [
            onnx_ir.node("Transpose", [value], attributes={"perm": [1, 0, 2]}),
            # Without this step between them onnxruntime makes the transpose and the sum one, the former.
            onnx_ir.node("Reshape", [None, store_integers(model, "tokens_by_values", [0, -1])]),
            onnx_ir.node("ReduceSum", [None, store_integers(model, "first_axis", [0])], attributes={"keepdims": 0}),
            onnx_ir.node("Reshape", [None, store_integers(model, f"rows_of_{width}", [-1, width])]),
        ]
        for number, each in enumerate(new):
            each.name = each.outputs[0].name = f"{summed.name}_in_order_{number}"
            if number:
                each.replace_input_with(0, new[number - 1].outputs[0])
        model.graph.insert_after(node, new)
        last, name = new[-1].outputs[0], summed.name
        # An output of the graph is known by its name.
        summed.name, last.name, last.type, last.shape = f"{name}_traced", name, summed.type, summed.shape
        onnx_ir.convenience.replace_all_uses_with(summed, last, replace_graph_outputs=True)
        model.graph.remove(node, safe=True)
        written += 1
    return written


def _is_over_tokens(node: onnx_ir.Node) -> bool:
    axes = node.inputs[1].const_value if len(node.inputs) > 1 and node.inputs[1] is not None else None
    is_kept = node.attributes.get_int("keepdims", 1)
    return axes is not None and axes.numpy().tolist() in ([1], [-2]) and not is_kept
