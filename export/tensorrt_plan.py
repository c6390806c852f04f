"""TensorRT engines from typed ONNX graphs, built by Polygraphy on the machine with the GPU that will run them; and a static check of what
TensorRT's ONNX parser takes, for machines without TensorRT.

The check's source is onnx-tensorrt, docs/operators.md of release 10.15 (opsets 9 to 24), the rows of operators that encoders use. Passing
it says that operators and types are listed, not that an engine was built.
"""

import importlib.util
import platform
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch

from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.artefacts import RUNTIMES
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import Profile
from hf_albert_plus.model_inputs import input_rank, longest_input, reads_token_types


def check_tensorrt(source: Path, *, graph: str, profile: Profile) -> None:
    """Refuses to begin where an engine cannot be built.

    Raises:
        InvalidInput: no TensorRT, Polygraphy or GPU; it says which, and how to build the engine elsewhere.
    """
    missing = [name for name in ("tensorrt", "polygraphy") if importlib.util.find_spec(name) is None]
    lacking = [f"no {name}" for name in missing] + ([] if torch.cuda.is_available() else ["no NVIDIA GPU"])
    if not lacking:
        return
    config = load_config(source, option="DIR")
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if reads_token_types(config) else [])]
    line = trtexec_line(
        Path("OUT") / RUNTIMES[graph].file,
        names,
        profile=profile.fitted(longest_input(config)),
        rank=input_rank(config),
    )
    raise InvalidInput(
        "a TensorRT engine is built by TensorRT on the GPU that will run it",
        got=" and ".join(lacking),
        repair="on a machine that has both, run the same command after pip install 'hf-albert-plus[tensorrt]'; or here "
        f"albert-plus export {source} --to {graph} --out OUT, and there {line}",
    )


def trtexec_line(graph: Path, names: list[str], *, profile: Profile, rank: int = 2) -> str:
    """The command of TensorRT's own tool that builds the same engine. Graphs carry their types, which release 11 always
    follows, and release 10 with this flag."""
    shapes = ["x".join(str(size) for size in shape) for shape in profile.shapes(rank)]
    options = [
        f"--{which}Shapes={','.join(f'{name}:{shape}' for name in names)}"
        for which, shape in zip(("min", "opt", "max"), shapes, strict=True)
    ]
    return " ".join(
        [
            "trtexec",
            f"--onnx={graph.as_posix()}",
            *options,
            "--stronglyTyped",
            "--timingCacheFile=timing.cache",
            "--saveEngine=model.plan",
        ]
    )


@dataclass(frozen=True)
class Plan:
    """What an engine belongs to: TensorRT's release, the GPU, and the shapes that it takes."""

    tensorrt: str
    gpu: str
    compute_capability: str
    cuda: str | None
    system: str
    profile: dict[str, tuple[int, ...]]


def build_plan(graph: Path, target: Path, *, profile: Profile, timing_cache: Path | None) -> Plan:
    """Builds and writes an engine.

    Args:
        graph: an ONNX graph whose types are the engine's.
        timing_cache: read if it is there, and written.

    Raises:
        InvalidInput: the graph holds what TensorRT's parser does not list.
    """
    import tensorrt
    from polygraphy.backend.trt import CreateConfig, EngineBytesFromNetwork, NetworkFromOnnxPath
    from polygraphy.backend.trt import Profile as TensorRtProfile

    proto = onnx.load(graph)
    findings = unsupported(proto)
    if findings:
        raise InvalidInput(
            "a graph for TensorRT holds only what its parser lists", got="; ".join(findings), repair="report this graph"
        )
    rank = len(proto.graph.input[0].type.tensor_type.shape.dim)
    shapes = TensorRtProfile()
    low, best, high = profile.shapes(rank)
    for value in proto.graph.input:
        shapes.add(value.name, min=low, opt=best, max=high)
    cache = str(timing_cache) if timing_cache is not None else None
    engine = EngineBytesFromNetwork(
        NetworkFromOnnxPath(str(graph), strongly_typed=True),
        config=CreateConfig(profiles=[shapes], load_timing_cache=cache if cache and Path(cache).is_file() else None),
        save_timing_cache=cache,
    )()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(bytes(engine))
    return Plan(
        tensorrt=tensorrt.__version__,
        gpu=torch.cuda.get_device_name(),
        compute_capability=".".join(str(number) for number in torch.cuda.get_device_capability()),
        cuda=torch.version.cuda,
        system=platform.platform(),
        profile={"min": low, "opt": best, "max": high},
    )


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
    findings = [
        f"opset {opset.version} of the {opset.domain or 'standard'} operators"
        for opset in proto.opset_import
        if opset.domain not in ("", "ai.onnx") or opset.version not in OPSETS
    ]
    for node in typed.graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type not in _OPERATORS:
            findings.append(f"operator {node.op_type}")
            continue
        for name in (*node.input, *node.output):
            if name in types and types[name] not in _types_of(node, name):
                findings.append(f"{node.op_type} on {_T.DataType.Name(types[name]).lower()}")
        if (
            node.op_type in {"QuantizeLinear", "DequantizeLinear"}
            and len(node.input) > 2
            and node.input[2] not in zeros
        ):
            findings.append(f"{node.op_type} with a zero point other than 0")
    return sorted(set(findings))


def _types_of(node: onnx.NodeProto, name: str) -> set[int]:
    """The types that an operator may have on one of its tensors: comparisons give truth values, indices are integers."""
    types = _OPERATORS[node.op_type]
    comparison = node.op_type in {"Equal", "Greater", "GreaterOrEqual", "IsNaN", "Less", "LessOrEqual"}
    if (comparison and name in node.output) or (node.op_type == "Where" and name == node.input[0]):
        return types | {_T.BOOL}
    if node.op_type in {"ArgMax", "ArgMin", "Shape", "Size", "CumSum", "ReduceMean"}:
        return types | {_T.INT32, _T.INT64}
    return types
