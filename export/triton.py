"""A model repository for NVIDIA's Triton Inference Server: onnxruntime and TensorRT backends, dynamic batching.

The configuration is built as a message of Triton's own published schema (`model_config.proto`, which tritonclient
brings), so it cannot hold a field or value that the schema lacks.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from transformers import PreTrainedModel

from hf_albert_plus.engines.artefacts import Artefact
from hf_albert_plus.engines.classifier_config import answer_rule_of
from hf_albert_plus.errors import need
from hf_albert_plus.heads import is_classifier
from hf_albert_plus.model_inputs import longest_input

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "spiece.model")
MAX_BATCH = 64
# Triton joins requests of one shape, so clients pad to one of these lengths.
LENGTHS = (16, 32, 64, 128, 256, 512)
QUEUE_DELAY_MICROSECONDS = 1000
_TYPES: dict[int, str] = {
    onnx.TensorProto.INT64: "TYPE_INT64",
    onnx.TensorProto.FLOAT: "TYPE_FP32",
    onnx.TensorProto.FLOAT16: "TYPE_FP16",
    onnx.TensorProto.BFLOAT16: "TYPE_BF16",
}


@dataclass(frozen=True)
class ServedModel:
    """A model of a repository: its file, and the backend that runs it."""

    file: str
    backend: str


@dataclass(frozen=True)
class Repository:
    """The models that were written, by their names, and the schema of their configurations."""

    models: dict[str, ServedModel]
    schema: str


def write_repository(
    directory: Path, model: PreTrainedModel, *, artefacts: Sequence[Artefact], largest_batch: int, padding_side: str
) -> Repository:
    """Writes `triton/NAME_ARTEFACT/{config.pbtxt,1/model.*}` for every artefact that Triton serves, with the tokenizer and
    a contract of what clients send.

    Args:
        directory: the export, with its artefacts.
        artefacts: what was made; those that Triton has a backend for are taken.
        largest_batch: of a TensorRT engine.
        padding_side: the tokenizer's.

    Raises:
        InvalidInput: tritonclient is missing.
    """
    text_format = need("google.protobuf.text_format", extra="triton")
    repository = directory / "triton"
    written = {}
    for artefact in artefacts:
        if artefact.triton_backend is None or artefact.file is None:
            continue
        name = f"{model.config.model_type}_{artefact.name.replace('-', '_')}"
        source = directory / artefact.file
        ports = _ports(directory, artefact)
        config = _config(name, artefact, ports, largest_batch, suffix=source.suffix)
        version = repository / name / "1"
        version.mkdir(parents=True)
        shutil.copyfile(source, version / f"model{source.suffix}")
        text: str = text_format.MessageToString(config)
        (repository / name / "config.pbtxt").write_text(text, encoding="utf-8")
        contract = repository / name / "contract"
        contract.mkdir()
        for file in _TOKENIZER_FILES:
            if (directory / file).is_file():
                shutil.copyfile(directory / file, contract / file)
        (contract / "contract.json").write_text(
            json.dumps(_contract(model, ports, padding_side), indent=2, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )
        written[name] = ServedModel(file=f"triton/{name}/1/model{source.suffix}", backend=config.backend)
    return Repository(models=written, schema="inference.ModelConfig of tritonclient")


def _config(
    name: str, artefact: Artefact, ports: dict[str, list[onnx.ValueInfoProto]], largest_batch: int, *, suffix: str
) -> Any:
    """The model's configuration as a message of Triton's schema."""
    schema = need("tritonclient.grpc.model_config_pb2", extra="triton")
    config = schema.ModelConfig(
        name=name,
        backend=artefact.triton_backend,
        max_batch_size=largest_batch if artefact.triton_backend == "tensorrt" else MAX_BATCH,
        default_model_filename=f"model{suffix}",
    )
    for port in ports["input"]:
        _add(config.input, port, schema)
    for port in ports["output"]:
        _add(config.output, port, schema)
    config.dynamic_batching.max_queue_delay_microseconds = QUEUE_DELAY_MICROSECONDS
    kind = schema.ModelInstanceGroup.Kind.Value("KIND_GPU" if artefact.for_gpu else "KIND_CPU")
    config.instance_group.add(count=1, kind=kind)
    return config


def _add(entries: Any, port: onnx.ValueInfoProto, schema: Any) -> None:
    """One input or output; Triton wants an axis past the batch, which it takes away again where there is none."""
    dims = _dims(port)
    entry = entries.add(name=port.name, data_type=schema.DataType.Value(_type(port)), dims=dims or [1])
    if not dims:
        entry.reshape.SetInParent()


def _ports(directory: Path, artefact: Artefact) -> dict[str, list[onnx.ValueInfoProto]]:
    """Inputs and outputs of an artefact, those of a TensorRT engine as its ONNX graph has them."""
    graphs = sorted((directory / "onnx").glob("model*.onnx")) if artefact.triton_backend == "tensorrt" else []
    graph = onnx.load(graphs[0] if graphs else directory / str(artefact.file)).graph
    # An input with a value of its own is none that clients send.
    own = {tensor.name for tensor in graph.initializer}
    return {"input": [port for port in graph.input if port.name not in own], "output": list(graph.output)}


def _type(port: onnx.ValueInfoProto) -> str:
    return _TYPES[port.type.tensor_type.elem_type]


def _dims(port: onnx.ValueInfoProto) -> list[int]:
    """The axes past the batch, -1 where they vary."""
    dims = port.type.tensor_type.shape.dim[1:]
    return [dim.dim_value if dim.HasField("dim_value") else -1 for dim in dims]


def _contract(model: PreTrainedModel, ports: dict[str, list[onnx.ValueInfoProto]], padding_side: str) -> dict[str, Any]:
    """What a client does before and after: the tokenizer's files lie beside it."""
    longest = longest_input(model.config)
    return {
        "tokenizer": "the files in this folder, for transformers.AutoTokenizer or tokenizers.Tokenizer",
        "inputs": [port.name for port in ports["input"]],
        "pairs": "as two texts of one call of the tokenizer",
        "padding": {
            "id": model.config.pad_token_id or 0,
            "attention_mask": 0,
            "token_type_ids": 0,
            "side": padding_side,
        },
        "pad_to_lengths": [length for length in LENGTHS if length < longest] + [longest],
        "truncate_to": longest,
        "outputs": [port.name for port in ports["output"]],
        **_answers(model.config),
    }


# What makes scores of logits.
_FUNCTIONS = {"single_label_classification": "softmax", "multi_label_classification": "sigmoid", "regression": "none"}


def _answers(config: Any) -> dict[str, Any]:
    """What a client makes of the logits: the best label of a softmax, every label whose sigmoid reaches its threshold, or the number as it
    is. Of a model that classifies no texts, the labels alone."""
    if not is_classifier(config):
        return {"labels": config.id2label, "problem_type": config.problem_type}
    rule = answer_rule_of(config)
    answers = {
        "labels": config.id2label,
        "problem_type": rule.problem_type,
        "function_to_apply": _FUNCTIONS[rule.problem_type],
    }
    return {**answers, "thresholds": list(rule.thresholds)} if rule.has_several else answers
