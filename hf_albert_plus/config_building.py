"""Configs built from variants, teachers and options, and what a model of such a config costs."""

from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

import psutil
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedConfig

from .configuration_albert_plus import AlbertPlusConfig
from .errors import InvalidInput, suggest
from .records.files import parse_json
from .variants import SHARED, UNSHARED, Part, get_variant

FIELDS = tuple(AlbertPlusConfig.__annotations__)
_LABELS = ("id2label", "label2id", "problem_type")


def variant_config(name: str, *, overrides: dict[str, Any] | None = None) -> AlbertPlusConfig:
    """The config of a variant.

    Raises:
        InvalidInput: no such variant, no such field, or values that do not fit together.
    """
    return build_config({**get_variant(name).fields, **(overrides or {})})


def derived_config(
    source: AlbertPlusConfig, *, variant: str | None, overrides: dict[str, Any] | None = None
) -> AlbertPlusConfig:
    """The config of a model that replaces `source`: a variant's numbers or the source's own, with overrides.

    Vocabulary, labels and pooling stay the source's; it gets no more positions and token types than the source has.

    Raises:
        InvalidInput: no such variant, no such field, or values that do not fit together.
    """
    base = source if variant is None else variant_config(variant)
    fields = {name: getattr(base, name) for name in FIELDS}
    for name in ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", "pooling", *_LABELS):
        fields[name] = getattr(source, name)
    for name in ("max_position_embeddings", "type_vocab_size"):
        fields[name] = min(fields[name], getattr(source, name))
    return build_config({**fields, **(overrides or {})})


def student_of(
    teacher: PreTrainedConfig, *, part: Part = "half", overrides: dict[str, Any] | None = None
) -> AlbertPlusConfig:
    """A student of the teacher's width, with E = 128 at most.

    - `half`: half of the teacher's layers, all of them one block. Sharing makes it small, half the layers make it fast.
    - `third`: a third of them, each its own block, which can start as a layer of the teacher.
    """
    source = _as_albert_plus(teacher)
    fields = {name: getattr(source, name) for name in (
        "vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings",
        "type_vocab_size", "hidden_act", "layer_norm_eps", "pad_token_id", "norm_type", "bottleneck_size",
        "query_key_bottleneck", "num_feedforward_networks", "trigram_embeddings", "relative_attention_buckets", "pooling", "pooler",
    )}  # fmt: skip
    fields["embedding_size"] = source.embedding_size if source.trigram_embeddings else min(128, source.hidden_size)
    depths = {"half": source.num_hidden_layers // 2, "third": round(source.num_hidden_layers / 3)}
    fields["num_hidden_layers"] = max(1, depths[part])
    return build_config({**fields, **(SHARED if part == "half" else UNSHARED), **(overrides or {})})


def variant_of(teacher: PreTrainedConfig, *, variant: str, overrides: dict[str, Any] | None = None) -> AlbertPlusConfig:
    """A variant with the teacher's vocabulary, for a student of it."""
    return derived_config(_as_albert_plus(teacher), variant=variant, overrides=overrides)


def _as_albert_plus(teacher: PreTrainedConfig) -> AlbertPlusConfig:
    """A classifier's config in our terms: the exact one, or what architectures call alike."""
    from .conversion.families import FAMILIES
    from .conversion.models import converted_config

    if isinstance(teacher, AlbertPlusConfig):
        return teacher
    if (
        teacher.model_type in FAMILIES
        and FAMILIES[teacher.model_type].obstacle(teacher, "ForSequenceClassification") is None
    ):
        return converted_config(teacher, head="ForSequenceClassification")
    types = getattr(teacher, "type_vocab_size", 0) or 0
    return build_config(
        {
            "vocab_size": teacher.vocab_size,
            "hidden_size": teacher.hidden_size,
            "embedding_size": getattr(teacher, "embedding_size", teacher.hidden_size),
            "num_hidden_layers": teacher.num_hidden_layers,
            "num_attention_heads": teacher.num_attention_heads,
            "intermediate_size": getattr(teacher, "intermediate_size", 4 * teacher.hidden_size),
            "max_position_embeddings": getattr(teacher, "max_position_embeddings", 512),
            "type_vocab_size": types if types > 1 else 0,
            "hidden_act": getattr(teacher, "hidden_act", "gelu"),
            "layer_norm_eps": getattr(teacher, "layer_norm_eps", 1e-12),
            "pad_token_id": teacher.pad_token_id,
        }
    )


def build_config(fields: dict[str, Any]) -> AlbertPlusConfig:
    """A config from field values, unknown names refused.

    Raises:
        InvalidInput: no such field, or values that do not fit together.
    """
    known = [*FIELDS, *_LABELS]
    for name in fields:
        if name not in known and name != "num_labels":
            raise InvalidInput(
                "--set must name a field of AlbertPlusConfig", got=repr(name), repair=suggest(name, known)
            )
    try:
        config = AlbertPlusConfig(**fields)
    except InvalidInput as error:
        raise InvalidInput(
            "the values of a config must fit together", got=f"this: {error}", repair="change that value with --set"
        ) from None
    _check_memory(config)
    return config


def _check_memory(config: AlbertPlusConfig) -> None:
    """Refuses a model whose matrices alone have no room here, before they are made.

    Raises:
        InvalidInput: such a model.
    """
    width = config.bottleneck_size or config.hidden_size
    columns = config.num_feedforward_networks * sum(config.intermediate_sizes)
    attention = 4 * width**2 // config.num_attention_heads * sum(config.attention_heads)
    embeddings = (config.vocab_size + config.max_position_embeddings) * config.embedding_size
    needed_bytes = 4 * (embeddings + attention + 2 * width * columns)
    memory_bytes = psutil.virtual_memory().total
    if needed_bytes > memory_bytes:
        raise InvalidInput(
            f"a model must fit into the {memory_bytes / 1e9:.0f} GB of memory here",
            got=f"weights of {needed_bytes / 1e9:,.0f} GB",
            repair="use fewer layers or a smaller size with --set, or a larger machine",
        )


def vocabulary_fields(tokenizer: Any) -> dict[str, Any]:
    """The fields that a config takes from its tokenizer."""
    return {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
    }


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """The fields that --set names, their values read as JSON, or else taken as strings.

    `["ffn_sharing=2", "hidden_act=relu"]` -> `{"ffn_sharing": 2, "hidden_act": "relu"}`.

    Raises:
        InvalidInput: a pair without `=`.
    """
    fields: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInput(
                "--set must have the form key=value", got=repr(pair), repair="use --set num_hidden_layers=4"
            )
        try:
            fields[key.strip()] = parse_json(value)
        except ValueError as error:
            if not isinstance(error, JSONDecodeError):
                raise InvalidInput(
                    f"the value of --set {key.strip()} must be JSON or a word",
                    got=str(error),
                    repair="use a finite number",
                ) from None
            fields[key.strip()] = value.strip()
    return fields


def parse_layers(text: str) -> list[int]:
    """The layers that --layers names: `"0,2,4"` -> `[0, 2, 4]`.

    Raises:
        InvalidInput: anything else.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InvalidInput("--layers must be numbers with commas", got=repr(text), repair="use --layers 0,2,4,7,9,11")
    return [int(part) for part in parts]


@dataclass(frozen=True)
class EncoderSize:
    """The size of a bare encoder with its pooler.

    Attributes:
        parameters: unique ones, a shared block counted once.
        flops: floating point operations of the matrix products for one sequence; a multiplication and an addition are
            two. Sharing does not lower them.
        file_bytes: of the weights in `model.safetensors` in fp32, up to its header of a few kB.
    """

    parameters: int
    flops: int
    file_bytes: int


def measure(config: AlbertPlusConfig, *, length: int = 128) -> EncoderSize:
    """The size of a config's encoder, counted on torch's meta device, where tensors have shapes and no content."""
    from .modeling_albert_plus import AlbertPlusModel  # transformers' model classes, which no config needs

    if length < 1:
        raise InvalidInput("--length must be at least 1", got=length, repair="use --length 128")
    length = min(length, config.max_position_embeddings)
    with torch.device("meta"):
        model = AlbertPlusModel._from_config(config, attn_implementation="eager").eval()
        ids = torch.zeros(1, length, dtype=torch.long)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(ids)
    parameters = model.num_parameters()
    return EncoderSize(parameters=parameters, flops=counter.get_total_flops(), file_bytes=4 * parameters)
