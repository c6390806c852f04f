"""A folder that transformers.js opens as it is, in a browser and in Node: a config of a type that it knows, the graphs under the names of its
dtypes, and the tokenizer."""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from hf_albert_plus.checkpoints import has_tokenizer
from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.artefacts import Artefact, names_in_words
from hf_albert_plus.engines.classifier_config import problem_type_of
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.web_tokenizer import web_tokenizer
from hf_albert_plus.heads import architecture_of, head_of
from hf_albert_plus.model_inputs import longest_input, reads_token_types
from hf_albert_plus.records.files import write_json
from hf_albert_plus.tasks.rows import load_tokenizer

FOLDER = "web"
# transformers.js takes the class of a model from its type, and BERT's are the ones with every head. What is computed stands in the graph.
_TYPE, _CLASS = "bert", "Bert"
_HEADS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
# Where transformers.js looks for a dtype. A page that names none gets the first of these that is there.
_FILES = {
    "q8": "model_quantized.onnx",
    "int8": "model_int8.onnx",
    "q4": "model_q4.onnx",
    "fp32": "model.onnx",
    "fp16": "model_fp16.onnx",
}
# What its pages read of a config, besides type and class.
_FIELDS = (
    "id2label", "label2id", "problem_type", "label_thresholds", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
    "max_position_embeddings", "type_vocab_size", "pad_token_id",
)  # fmt: skip
# The kinds of vocabularies that transformers.js reads. Everything else stands in tokenizer.json, but for token types: the class gives them.
_KINDS = ["WordPiece", "Unigram", "BPE"]
_WITH_TYPES, _WITHOUT_TYPES = "BertTokenizer", "PreTrainedTokenizer"


@dataclass(frozen=True)
class WebFolder:
    """What was written: the file of each dtype, and the dtype of a page that names none."""

    models: dict[str, str]
    default: str


def check_web(source: Path) -> None:
    """Refuses models that transformers.js has no class or no tokenizer for.

    Raises:
        InvalidInput: another head, no tokenizer, or one whose vocabulary it does not read.
    """
    config = load_config(source, option="DIR")
    head = head_of(architecture_of(config), option=f"DIR ({source})")
    if head not in _HEADS:
        raise InvalidInput(
            f"--to {FOLDER} takes the heads that transformers.js has for {_TYPE}: {', '.join(_HEADS)}",
            got=architecture_of(config),
            repair="export another model, or run this one's graph in onnxruntime itself: --to onnx",
        )
    if not has_tokenizer(source):
        raise InvalidInput(
            f"--to {FOLDER} writes the tokenizer beside the graphs", got=f"none in {source}", repair="save it there"
        )
    tokenizer: Any = load_tokenizer(source, config)
    kind = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["type"] if tokenizer.is_fast else "no such file"
    if kind not in _KINDS:
        raise InvalidInput(
            f"transformers.js reads a tokenizer.json with a vocabulary of the kind {names_in_words(_KINDS)}",
            got=f"{kind} in {source}",
            repair="export a model with such a tokenizer: albert-plus tokenizer train makes one",
        )


def write_web_folder(
    directory: Path, model: PreTrainedModel, tokenizer: Any, *, artefacts: Sequence[Artefact]
) -> WebFolder:
    """Writes `web/{config.json,tokenizer.json,tokenizer_config.json,onnx/model*.onnx}`. Graphs are links to those of the export where the
    file system has hard links, so that their bytes are there once.

    Args:
        directory: the export, with its artefacts.
        tokenizer: of transformers, as the model was trained with.
        artefacts: what was made; those that transformers.js has a name for are taken.
    """
    folder = directory / FOLDER
    graphs = {dtype: artefact.file for artefact in artefacts for dtype in artefact.dtypes}
    models = {dtype: f"onnx/{file}" for dtype, file in _FILES.items() if dtype in graphs}
    (folder / "onnx").mkdir(parents=True)
    for dtype, file in models.items():
        _link(directory / str(graphs[dtype]), folder / file)
    default = next(iter(models))
    write_json(folder / "config.json", _config(model.config, default=default))
    backend = tokenizer.backend_tokenizer
    written = web_tokenizer(backend, json.loads(backend.to_str()))
    (folder / "tokenizer.json").write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")
    write_json(folder / "tokenizer_config.json", _tokenizer_config(model.config, tokenizer))
    return WebFolder({dtype: f"{FOLDER}/{file}" for dtype, file in models.items()}, default)


def _link(source: Path, target: Path) -> None:
    """A second name of a file; a copy where the file system gives none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _config(config: Any, *, default: str) -> dict[str, Any]:
    head = head_of(architecture_of(config), option="DIR")
    said = {name: getattr(config, name, None) for name in _FIELDS}
    if head == "ForSequenceClassification":
        said["problem_type"] = problem_type_of(config)
    return {
        "model_type": _TYPE,
        "architectures": [f"{_CLASS}{head}"],
        **{name: value for name, value in said.items() if value is not None},
        # Else a page that names no dtype gets q8 in a browser and fp32 in Node.
        "transformers.js_config": {"dtype": default},
    }


def _tokenizer_config(config: Any, tokenizer: Any) -> dict[str, Any]:
    return {
        "tokenizer_class": _WITH_TYPES if reads_token_types(config) else _WITHOUT_TYPES,
        "model_max_length": int(min(tokenizer.model_max_length, longest_input(config))),
        "padding_side": tokenizer.padding_side,
        "clean_up_tokenization_spaces": bool(tokenizer.clean_up_tokenization_spaces),
        **{name: str(token) for name, token in tokenizer.special_tokens_map.items() if not isinstance(token, list)},
    }
