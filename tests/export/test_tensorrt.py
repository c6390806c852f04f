"""TensorRT where there is none: the static check, the command to run elsewhere, and what the calls hand over."""

import inspect
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from hf_albert_plus.cli.app import app
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.graph.tracing import save_graph
from hf_albert_plus.export.precision.half import load_typed, to_half
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.export.settings import ExportSettings, Profile, parse_profile
from hf_albert_plus.export.stage import export
from hf_albert_plus.export.tensorrt_plan import trtexec_line, unsupported
from hf_albert_plus.heads import HEADS
from tests.support.graphs import exported_graph
from tests.support.ranges import random_ranges

ARCHITECTURES = [
    {},
    {"attention_sharing": "none", "hidden_act": "relu", "embedding_size": 32, "type_vocab_size": 0},
    {"norm_type": "no_norm", "bottleneck_size": 16, "hidden_act": "gelu", "trigram_embeddings": True},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "fields"),
    [*((head, ARCHITECTURES[0]) for head in HEADS), *((HEADS[0], fields) for fields in ARCHITECTURES[1:])],
)
def test_graphs_for_tensorrt_hold_only_what_its_parser_lists(tmp_path, head, fields):
    exported_graph(tmp_path / "m.onnx", head, num_hidden_layers=1, **fields)
    assert unsupported(onnx.load(tmp_path / "m.onnx")) == []
    for half in ("fp16", "bf16"):
        graph = load_typed(tmp_path / "m.onnx")
        to_half(graph, half)
        save_graph(graph, tmp_path / f"{half}.onnx")
        assert unsupported(onnx.load(tmp_path / f"{half}.onnx")) == []


def test_the_int8_graph_of_onnxruntime_is_not_for_tensorrt(tmp_path):
    model = exported_graph(tmp_path / "m.onnx", num_hidden_layers=1)
    quantise(tmp_path / "m.onnx", tmp_path / "q.onnx", ranges=random_ranges(model, tmp_path / "m.onnx"))
    found = unsupported(onnx.load(tmp_path / "q.onnx"))
    assert "operator MatMulIntegerToFloat" in set(found)


def _graph(*nodes, types=(TensorProto.FLOAT, TensorProto.FLOAT), opset=20, domain="", initializers=()):
    return helper.make_model(
        helper.make_graph(
            list(nodes),
            "g",
            [helper.make_tensor_value_info("x", types[0], [2, 4])],
            [helper.make_tensor_value_info("y", types[1], [2, 4])],
            list(initializers),
        ),
        opset_imports=[helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])],
    )


@pytest.mark.parametrize(
    ("proto", "finding"),
    [
        (_graph(helper.make_node("Tanh", ["x"], ["y"]), types=(TensorProto.DOUBLE,) * 2), "Tanh on double"),
        (_graph(helper.make_node("Hardmax", ["x"], ["y"])), "operator Hardmax"),
        (_graph(helper.make_node("FastGelu", ["x"], ["y"], domain="com.microsoft"), domain="com.microsoft"),
         "opset 1 of the com.microsoft operators"),
        (_graph(helper.make_node("Relu", ["x"], ["y"]), opset=8), "opset 8 of the standard operators"),
        (_graph(helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"]), types=(TensorProto.FLOAT, TensorProto.UINT8),
                initializers=[numpy_helper.from_array(__import__("numpy").float32(1), "s"),
                              numpy_helper.from_array(__import__("numpy").uint8(3), "z")]),
         "QuantizeLinear with a zero point other than 0"),
        (_graph(helper.make_node("Relu", ["x"], ["y"])), None),
    ],
)  # fmt: skip
def test_the_check_can_fail(proto, finding):
    assert (finding in unsupported(proto)) if finding else unsupported(proto) == []


def test_without_tensorrt_one_error_says_what_is_missing_and_prints_the_line(classifier_dir, tmp_path):
    result = CliRunner().invoke(
        app,
        [
            "export",
            str(classifier_dir),
            "--to",
            "tensorrt",
            "--profile",
            "1x1,4x32,16x512",
            "--out",
            str(tmp_path / "x"),
        ],
    )
    error = result.exception
    assert isinstance(error, InvalidInput)
    text = str(error)
    assert "got no tensorrt" in text
    assert "no NVIDIA GPU" in text
    assert "pip install 'hf-albert-plus[tensorrt]'" in text
    assert f"albert-plus export {classifier_dir} --to onnx-fp16 --out OUT" in text
    shapes = {which: f"--{which}Shapes=" + ",".join(f"{n}:{s}" for n in ("input_ids", "attention_mask", "token_type_ids"))
              for which, s in (("min", "1x1"), ("opt", "4x32"), ("max", "16x64"))}  # fmt: skip
    assert all(line in text for line in shapes.values())  # the model has 64 positions
    assert "trtexec --onnx=OUT/onnx/model_fp16.onnx" in text
    assert "--saveEngine=model.plan" in text
    assert not (tmp_path / "x").exists()


def test_the_line_is_one_shell_command():
    line = trtexec_line(__import__("pathlib").Path("m.onnx"), ["input_ids"], profile=Profile(), rank=3)
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert words[0] == "trtexec"
    assert "--minShapes=input_ids:1x1x1" in words
    assert "--maxShapes=input_ids:32x8x512" in words


def test_profiles():
    profile = parse_profile("1x1, 8x128,32x256")
    assert profile == Profile((1, 1), (8, 128), (32, 256))
    assert profile.fitted(100) == Profile((1, 1), (8, 100), (32, 100))
    assert profile.allows((32, 256))
    assert not profile.allows((33, 8))
    for wrong in ("1x1", "8x128,1x1,32x512", "1x1,8x128,32xb", "0x1,8x128,32x512", ""):
        with pytest.raises(InvalidInput, match="use --profile 1x1,8x128,32x512"):
            parse_profile(wrong)


def test_polygraphy_takes_what_it_is_given():
    """Its signatures, without TensorRT."""
    from polygraphy.backend.trt import CreateConfig, EngineBytesFromNetwork, NetworkFromOnnxPath
    from polygraphy.backend.trt import Profile as TensorRtProfile

    inspect.signature(NetworkFromOnnxPath.__init__).bind(None, "m.onnx", strongly_typed=True)
    inspect.signature(CreateConfig.__init__).bind(None, profiles=[], load_timing_cache=None)
    inspect.signature(EngineBytesFromNetwork.__init__).bind(None, None, config=None, save_timing_cache=None)
    shapes = TensorRtProfile().add("input_ids", min=(1, 1), opt=(8, 128), max=(32, 512))
    assert shapes["input_ids"].opt == (8, 128)


@pytest.mark.slow
def test_the_record_says_that_the_check_was_static(classifier_dir, tmp_path):
    record = export(classifier_dir, to=["onnx-fp16"], output=tmp_path / "x", settings=ExportSettings())
    facts = record.result["exports"]["onnx-fp16"]
    assert facts["tensorrt_unsupported"] == []
    assert facts["tensorrt_operators_of"] == "10.15"
    assert "each operator in fp32, its result rounded to fp16" in facts["parity_computed"]
