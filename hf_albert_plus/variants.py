"""Named configurations: each a row of numbers with its source."""

from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

from transformers import PreTrainedConfig

from .configuration_albert_plus import AlbertPlusConfig
from .errors import InvalidInput, suggest
from .files import parse_json

FIELDS = tuple(AlbertPlusConfig.__annotations__)
_LABELS = ("id2label", "label2id", "problem_type")


@dataclass(frozen=True)
class Variant:
    """One architecture: where its numbers come from, and the config fields that differ from the defaults."""

    source: str
    fields: dict[str, Any]


# ALBERT, Table 2: how many times as many examples a second each trains on as BERT-large, by (hidden size, layers).
_TRAINING_SPEEDUPS = {
    "bert": {(768, 12): 4.7, (1024, 24): 1.0},
    "albert": {(768, 12): 5.6, (1024, 24): 1.7, (2048, 24): 0.6, (4096, 12): 0.3},
}
_SHARED = {"attention_sharing": "all", "ffn_sharing": "all"}
_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_UNSHARED = {"vocab_size": 30522, "attention_sharing": "none", "ffn_sharing": "none", "hidden_act": "gelu", **_DROPOUT}
# The release notes of the 2019 code: v2 is trained longer, without dropout; v1-xxlarge had none either.
_ALBERT_V1, _ALBERT_V2 = "ALBERT, Table 1 (v1, with dropout)", "ALBERT, Table 1 (v2)"
_STUDY = {"all": _SHARED, "attention": {"attention_sharing": "all", "ffn_sharing": "none"},
          "ffn": {"attention_sharing": "none", "ffn_sharing": "all"},
          "none": {"attention_sharing": "none", "ffn_sharing": "none"}}  # fmt: skip


def _shape(hidden_size: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {"hidden_size": hidden_size, "num_hidden_layers": layers, "num_attention_heads": heads,
            "intermediate_size": 4 * hidden_size, **more}  # fmt: skip


def _albert(hidden_size: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {**_SHARED, **_shape(hidden_size, layers, heads), **more}


def _bert(hidden_size: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {**_UNSHARED, **_shape(hidden_size, layers, heads, embedding_size=hidden_size), **more}


def published_training_speedup(config: PreTrainedConfig) -> float | None:
    """The ALBERT paper's training speedup over BERT-large of this shape; None for a shape that it does not have.

    It is about examples a second in training on their hardware, and says nothing about inference.
    """
    if config.model_type == "albert_plus":
        blocks = {len(set(config.attention_map)), len(set(config.ffn_map))}
        kind = "albert" if blocks == {1} else "bert" if blocks == {config.num_hidden_layers} else None
    else:
        kind = config.model_type
    shape = (getattr(config, "hidden_size", None), getattr(config, "num_hidden_layers", None))
    return _TRAINING_SPEEDUPS.get(kind or "", {}).get(shape)  # type: ignore[arg-type]


VARIANTS: dict[str, Variant] = {
    "albert-base-v1": Variant(_ALBERT_V1, _albert(768, 12, 12, **_DROPOUT)),
    "albert-large-v1": Variant(_ALBERT_V1, _albert(1024, 24, 16, **_DROPOUT)),
    "albert-xlarge-v1": Variant(_ALBERT_V1, _albert(2048, 24, 32, **_DROPOUT)),
    "albert-xxlarge-v1": Variant("ALBERT, Table 1 (v1, no dropout)", _albert(4096, 12, 64)),
    "albert-base-v2": Variant(_ALBERT_V2, _albert(768, 12, 12)),
    "albert-large-v2": Variant(_ALBERT_V2, _albert(1024, 24, 16)),
    "albert-xlarge-v2": Variant(_ALBERT_V2, _albert(2048, 24, 32)),
    "albert-xxlarge-v2": Variant(_ALBERT_V2, _albert(4096, 12, 64)),
    **{
        f"albert-base-e{size}-{sharing}": Variant(
            "ALBERT, Tables 3 and 4", {**_albert(768, 12, 12, **_DROPOUT), "embedding_size": size, **maps}
        )
        for size in (64, 128, 256, 768)
        for sharing, maps in _STUDY.items()
    },
    "bert-base": Variant("BERT, section 3", _bert(768, 12, 12)),
    "bert-large": Variant("BERT, section 3", _bert(1024, 24, 16)),
    "bert-medium": Variant("Well-read students, Table 1", _bert(512, 8, 8)),
    "bert-small": Variant("Well-read students, Table 1", _bert(512, 4, 8)),
    "bert-mini": Variant("Well-read students, Table 1", _bert(256, 4, 4)),
    "bert-tiny": Variant("Well-read students, Table 1", _bert(128, 2, 2)),
    "distilbert": Variant(
        "DistilBERT, section 3 (with the classifier's dense layer)",
        _bert(768, 6, 12, type_vocab_size=0, pooler="relu", classifier_dropout_prob=0.2),
    ),
    "tinybert-4": Variant("TinyBERT, section 4.2", _bert(312, 4, 12, intermediate_size=1200)),
    "tinybert-6": Variant("TinyBERT, section 4.2", _bert(768, 6, 12)),
    "minilm-l6": Variant("MiniLM, L6-H384 of the release", _bert(384, 6, 12)),
    "minilm-l12": Variant("MiniLM, L12-H384 of the release", _bert(384, 12, 12)),
    "mobilebert": Variant(
        "MobileBERT, Table 1",
        _bert(512, 24, 4, embedding_size=128, trigram_embeddings=True, intermediate_size=512, bottleneck_size=128,
              num_feedforward_networks=4, norm_type="no_norm", pooler="none", hidden_act="relu",
              hidden_dropout_prob=0.0),
    ),
}  # fmt: skip


def get_variant(name: str) -> Variant:
    """A variant by name.

    Raises:
        InvalidInput: there is none.
    """
    if name not in VARIANTS:
        raise InvalidInput(
            "a variant must be a known name (albert-plus variants)",
            got=repr(name),
            repair=suggest(name, list(VARIANTS)),
        )
    return VARIANTS[name]


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

    Vocabulary and labels stay the source's; it gets no more positions and token types than the source has.

    Raises:
        InvalidInput: no such variant, no such field, or values that do not fit together.
    """
    base = source if variant is None else variant_config(variant)
    fields = {name: getattr(base, name) for name in FIELDS}
    for name in ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id", *_LABELS):
        fields[name] = getattr(source, name)
    for name in ("max_position_embeddings", "type_vocab_size"):
        fields[name] = min(fields[name], getattr(source, name))
    return build_config({**fields, **(overrides or {})})


def student_of(teacher: PreTrainedConfig, *, overrides: dict[str, Any] | None = None) -> AlbertPlusConfig:
    """The default student of a teacher: all-shared, the teacher's width, half of its layers and E = 128 at most.

    Sharing makes it small, half the layers make it fast.
    """
    source = _as_albert_plus(teacher)
    fields = {name: getattr(source, name) for name in (
        "vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings",
        "type_vocab_size", "hidden_act", "layer_norm_eps", "pad_token_id", "norm_type", "bottleneck_size",
        "num_feedforward_networks", "trigram_embeddings", "pooler",
    )}  # fmt: skip
    fields["embedding_size"] = source.embedding_size if source.trigram_embeddings else min(128, source.hidden_size)
    fields["num_hidden_layers"] = max(1, source.num_hidden_layers // 2)
    return build_config({**fields, **_SHARED, **(overrides or {})})


def variant_of(teacher: PreTrainedConfig, *, variant: str, overrides: dict[str, Any] | None = None) -> AlbertPlusConfig:
    """A variant with the teacher's vocabulary, for a student of it."""
    return derived_config(_as_albert_plus(teacher), variant=variant, overrides=overrides)


def _as_albert_plus(teacher: PreTrainedConfig) -> AlbertPlusConfig:
    """A classifier's config in our terms: the exact one, or what architectures call alike."""
    from .conversion import FAMILIES, converted_config

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
    import psutil

    width = config.bottleneck_size or config.hidden_size
    columns = config.num_feedforward_networks * sum(config.intermediate_sizes)
    attention = 4 * width**2 // config.num_attention_heads * sum(config.attention_heads)
    embeddings = (config.vocab_size + config.max_position_embeddings) * config.embedding_size
    needed, there = 4 * (embeddings + attention + 2 * width * columns), psutil.virtual_memory().total
    if needed > there:
        raise InvalidInput(
            f"a model must fit into the {there / 1e9:.0f} GB of memory here",
            got=f"weights of {needed / 1e9:,.0f} GB",
            repair="use fewer layers or a smaller size with --set, or a larger machine",
        )


def vocabulary_fields(tokenizer: Any) -> dict[str, Any]:
    """What a config has of its tokenizer."""
    return {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
    }


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """`["ffn_sharing=2", "hidden_act=relu"]` -> `{"ffn_sharing": 2, "hidden_act": "relu"}`: values are JSON, or else
    strings.

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
    """`"0,2,4"` -> `[0, 2, 4]`.

    Raises:
        InvalidInput: anything else.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InvalidInput("--layers must be numbers with commas", got=repr(text), repair="use --layers 0,2,4,7,9,11")
    return [int(part) for part in parts]


__all__ = [
    "FIELDS",
    "VARIANTS",
    "Variant",
    "build_config",
    "derived_config",
    "get_variant",
    "parse_layers",
    "parse_settings",
    "published_training_speedup",
    "student_of",
    "variant_config",
    "variant_of",
    "vocabulary_fields",
]
