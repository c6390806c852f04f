"""The model repository against Triton's own schema, and a client's view of the contract."""

import json

import onnxruntime
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.stage import export
from hf_albert_plus.heads import albert_plus_class
from tests.support.kinds import CLOSE, KINDS, TEXTS, make_classifier
from tests.support.small_models import randomise, small_config

pb = pytest.importorskip("tritonclient.grpc.model_config_pb2")
text_format = pytest.importorskip("google.protobuf.text_format")


@pytest.fixture(scope="module")
def repository(tmp_path_factory, classifier_dir):
    directory = tmp_path_factory.mktemp("triton") / "model"
    record = export(classifier_dir, to=["onnx-int8", "onnx-fp16", "triton"], output=directory)
    return directory, record


def _config(path):
    return text_format.Parse((path / "config.pbtxt").read_text(encoding="utf-8"), pb.ModelConfig())


@pytest.mark.slow
def test_every_model_parses_under_the_published_schema(repository):
    directory, record = repository
    models = record.result["exports"]["triton"]["models"]
    assert set(models) == {"albert_plus_onnx_int8", "albert_plus_onnx_fp16"}
    for name, facts in models.items():
        config = _config(directory / "triton" / name)
        assert config.name == name  # Triton refuses a folder of another name
        assert config.backend == facts["backend"] == "onnxruntime"
        assert config.max_batch_size > 1
        assert config.dynamic_batching.max_queue_delay_microseconds > 0
        assert (directory / facts["file"]).is_file()
        assert config.default_model_filename == "model.onnx"
    kinds = {name: _config(directory / "triton" / name).instance_group[0].kind for name in models}
    assert kinds == {
        "albert_plus_onnx_int8": pb.ModelInstanceGroup.KIND_CPU,
        "albert_plus_onnx_fp16": pb.ModelInstanceGroup.KIND_GPU,
    }


def test_ports_are_those_of_the_graph(repository):
    directory, _ = repository
    folder = directory / "triton" / "albert_plus_onnx_int8"
    config = _config(folder)
    session = onnxruntime.InferenceSession(str(folder / "1" / "model.onnx"), providers=["CPUExecutionProvider"])
    types = {"tensor(int64)": pb.TYPE_INT64, "tensor(float)": pb.TYPE_FP32}
    for ports, nodes in ((config.input, session.get_inputs()), (config.output, session.get_outputs())):
        assert [(port.name, port.data_type) for port in ports] == [(node.name, types[node.type]) for node in nodes]
        for port, node in zip(ports, nodes, strict=True):
            assert list(port.dims) == [size if isinstance(size, int) else -1 for size in node.shape[1:]]


def test_a_client_needs_the_contract_alone(repository):
    """Tokenise with the files beside the contract, pad as it says, and get what the engine gives."""
    directory, _ = repository
    folder = directory / "triton" / "albert_plus_onnx_int8"
    contract = json.loads((folder / "contract" / "contract.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(folder / "contract")
    encoded = tokenizer("the film is superb .", "the plot is good .")
    length = next(size for size in contract["pad_to_lengths"] if size >= len(encoded["input_ids"]))
    fill = {"input_ids": contract["padding"]["id"], "attention_mask": 0, "token_type_ids": 0}
    tensors = {
        name: torch.tensor([encoded[name] + [fill[name]] * (length - len(encoded[name]))])
        for name in contract["inputs"]
    }
    session = onnxruntime.InferenceSession(str(folder / "1" / "model.onnx"), providers=["CPUExecutionProvider"])
    (logits,) = session.run(contract["outputs"], {name: tensor.numpy() for name, tensor in tensors.items()})
    torch.testing.assert_close(torch.from_numpy(logits), Engine.load(directory, "onnx-int8")(**tensors).logits)
    assert set(contract["labels"]) == {"0", "1"}
    assert contract["truncate_to"] == 64


@pytest.mark.slow
def test_multiple_choice_has_two_varying_axes(tmp_path):
    model = randomise(albert_plus_class("ForMultipleChoice")(small_config(num_hidden_layers=1)))
    model.save_pretrained(tmp_path / "model")
    export(tmp_path / "model", to=["triton"], output=tmp_path / "out")
    config = _config(tmp_path / "out" / "triton" / "albert_plus_onnx")
    assert [list(port.dims) for port in config.input] == [[-1, -1]] * 3
    assert [list(port.dims) for port in config.output] == [[-1]]


def test_without_tritonclient_the_error_names_the_extra(classifier_dir, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tritonclient.grpc.model_config_pb2", None)
    with pytest.raises(InvalidInput, match=r"needs tritonclient.*pip install 'hf-albert-plus\[triton\]'"):
        export(classifier_dir, to=["triton"], output=tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one of three", "several, own thresholds", "a number"])
def test_the_contract_says_what_to_make_of_logits(kind, tokenizer_dir, tmp_path):
    """Scores and labels by the contract alone, against transformers' pipeline."""
    make_classifier(tmp_path / "model", tokenizer_dir, **KINDS[kind])
    export(tmp_path / "model", to=["onnx", "triton"], output=tmp_path / "out")
    folder = tmp_path / "out" / "triton" / "albert_plus_onnx"
    contract = json.loads((folder / "contract" / "contract.json").read_text(encoding="utf-8"))
    assert contract["problem_type"] == KINDS[kind]["problem_type"]
    assert contract.get("thresholds") == KINDS[kind].get("label_thresholds")
    model, tokenizer = (
        auto.from_pretrained(tmp_path / "model") for auto in (AutoModelForSequenceClassification, AutoTokenizer)
    )
    runs = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    session = onnxruntime.InferenceSession(str(folder / "1" / "model.onnx"), providers=["CPUExecutionProvider"])
    functions = {"softmax": lambda x: x.softmax(-1), "sigmoid": torch.sigmoid, "none": lambda x: x}
    for text in TEXTS:
        encoded = tokenizer(text, return_tensors="np")
        (logits,) = session.run(["logits"], {name: encoded[name] for name in contract["inputs"]})
        scores = functions[contract["function_to_apply"]](torch.from_numpy(logits))[0].tolist()
        found = dict(zip(contract["labels"].values(), scores, strict=True))
        assert found == pytest.approx({each["label"]: each["score"] for each in runs(text, top_k=None)}, abs=CLOSE)
