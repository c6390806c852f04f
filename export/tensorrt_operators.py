"""A static check of what TensorRT's ONNX parser takes, for machines without TensorRT.

Source: onnx-tensorrt, docs/operators.md of release 10.15 (opsets 9 to 24), the rows of operators that encoders use.
Passing it says that operators and types are listed, not that an engine was built.
"""

import onnx

TENSORRT_RELEASE = "10.15"
OPSETS = range(9, 25)

_T = onnx.TensorProto
_FLOATS: set[int] = {_T.FLOAT, _T.FLOAT16, _T.BFLOAT16}
_NUMBERS = _FLOATS | {_T.INT32, _T.INT64}
_ANY = _NUMBERS | {_T.BOOL}
_FAMILIES: tuple[tuple[set[int], str], ...] = (
    ({_T.BOOL}, "And Not Or Xor"),
    (
        _FLOATS,
        "Clip CumSum Einsum Elu Erf Exp Gemm HardSigmoid LayerNormalization Log LogSoftmax MatMul Reciprocal Sigmoid "
        "Softmax Softplus Sqrt Tanh",
    ),
    (
        _NUMBERS,
        "Abs Add ArgMax ArgMin Div Equal Gelu Greater GreaterOrEqual IsNaN Less LessOrEqual Max Mean Min Mod Mul Neg Pad "
        "Pow Range ReduceMax ReduceMean ReduceMin ReduceSum Relu Sign Sub Sum",
    ),
    (
        _ANY,
        "Cast CastLike Concat Constant ConstantOfShape Expand Flatten Gather GatherElements GatherND Identity If Loop "
        "OneHot Reshape Shape Size Slice Split Squeeze Tile Transpose Unsqueeze Where",
    ),
    ({_T.INT8} | _FLOATS, "DequantizeLinear QuantizeLinear"),
)
_OPERATORS = {name: types for types, names in _FAMILIES for name in names.split()}


def unsupported(proto: onnx.ModelProto) -> list[str]:
    """What a graph holds that the parser does not list: operators, their types, zero points other than 0, opsets.

    Returns:
        One line a finding, none twice; empty for a graph that passes.
    """
    typed = onnx.shape_inference.infer_shapes(proto)
    types = {value.name: value.type.tensor_type.elem_type for value in (*typed.graph.input, *typed.graph.value_info)}
    types |= {value.name: value.type.tensor_type.elem_type for value in typed.graph.output}
    types |= {tensor.name: tensor.data_type for tensor in typed.graph.initializer}
    zeros = {
        tensor.name
        for tensor in typed.graph.initializer
        if tensor.data_type in (_T.INT8, _T.UINT8) and not onnx.numpy_helper.to_array(tensor).any()
    }
    found = [
        f"opset {opset.version} of the {opset.domain or 'standard'} operators"
        for opset in proto.opset_import
        if opset.domain not in ("", "ai.onnx") or opset.version not in OPSETS
    ]
    for node in typed.graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type not in _OPERATORS:
            found.append(f"operator {node.op_type}")
            continue
        for name in (*node.input, *node.output):
            if name in types and types[name] not in _types_of(node, name):
                found.append(f"{node.op_type} on {_T.DataType.Name(types[name]).lower()}")
        if (
            node.op_type in {"QuantizeLinear", "DequantizeLinear"}
            and len(node.input) > 2
            and node.input[2] not in zeros
        ):
            found.append(f"{node.op_type} with a zero point other than 0")
    return sorted(set(found))


def _types_of(node: onnx.NodeProto, name: str) -> set[int]:
    """The types that an operator may have on one of its tensors: comparisons give truth values, indices are integers."""
    types = _OPERATORS[node.op_type]
    comparison = node.op_type in {"Equal", "Greater", "GreaterOrEqual", "IsNaN", "Less", "LessOrEqual"}
    if (comparison and name in node.output) or (node.op_type == "Where" and name == node.input[0]):
        return types | {_T.BOOL}
    if node.op_type in {"ArgMax", "ArgMin", "Shape", "Size", "CumSum", "ReduceMean"}:
        return types | {_T.INT32, _T.INT64}
    return types


__all__ = ["OPSETS", "TENSORRT_RELEASE", "unsupported"]
