"""Named configurations: each a row of numbers with its source."""

from typing import Any

from transformers import PreTrainedConfig

from .configuration_albert_plus import AlbertPlusConfig
from .errors import InvalidInput, suggest

_ALBERT = {"vocab_size": 30000, "embedding_size": 128, "attention_sharing": "all", "ffn_sharing": "all"}
_BERT = {"vocab_size": 30522, "attention_sharing": "none", "ffn_sharing": "none", "hidden_act": "gelu",
         "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}  # fmt: skip


def _width(hidden_size: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {"hidden_size": hidden_size, "num_hidden_layers": layers, "num_attention_heads": heads,
            "intermediate_size": 4 * hidden_size, **more}  # fmt: skip


VARIANTS: dict[str, dict[str, Any]] = {
    "albert-base": {**_ALBERT, **_width(768, 12, 12)},  # ALBERT, Table 1
    "albert-large": {**_ALBERT, **_width(1024, 24, 16)},  # ALBERT, Table 1
    "albert-xlarge": {**_ALBERT, **_width(2048, 24, 32)},  # ALBERT, Table 1; heads = H / 64
    "albert-xxlarge": {**_ALBERT, **_width(4096, 12, 64)},  # ALBERT, Table 1
    "bert-base": {**_BERT, **_width(768, 12, 12, embedding_size=768)},  # BERT, section 3
    "bert-large": {**_BERT, **_width(1024, 24, 16, embedding_size=1024)},  # BERT, section 3
    "bert-medium": {**_BERT, **_width(512, 8, 8, embedding_size=512)},  # Well-read students, Table 1
    "bert-small": {**_BERT, **_width(512, 4, 8, embedding_size=512)},  # Well-read students, Table 1
    "bert-mini": {**_BERT, **_width(256, 4, 4, embedding_size=256)},  # Well-read students, Table 1
    "bert-tiny": {**_BERT, **_width(128, 2, 2, embedding_size=128)},  # Well-read students, Table 1
}


def variant_config(name: str, *, overrides: dict[str, Any] | None = None) -> AlbertPlusConfig:
    """The config of a variant.

    Raises:
        InvalidInput: no such variant, no such field, or values that do not fit together.
    """
    if name not in VARIANTS:
        raise InvalidInput("a variant must be a known name", got=repr(name), repair=suggest(name, list(VARIANTS)))
    return build_config({**VARIANTS[name], **(overrides or {})})


def student_of(teacher: PreTrainedConfig, *, overrides: dict[str, Any] | None = None) -> AlbertPlusConfig:
    """The default student of a teacher: all-shared, the teacher's width, half of its layers and E = 128 at most.

    Sharing makes it small, half the layers make it fast.
    """
    fields = {
        "vocab_size": teacher.vocab_size,
        "hidden_size": teacher.hidden_size,
        "embedding_size": min(128, teacher.hidden_size),
        "num_hidden_layers": max(1, teacher.num_hidden_layers // 2),
        "num_attention_heads": teacher.num_attention_heads,
        "intermediate_size": getattr(teacher, "intermediate_size", 4 * teacher.hidden_size),
        "max_position_embeddings": getattr(teacher, "max_position_embeddings", 512),
        "type_vocab_size": max(getattr(teacher, "type_vocab_size", 0) or 0, 1),
        "hidden_act": getattr(teacher, "hidden_act", "gelu"),
        "layer_norm_eps": getattr(teacher, "layer_norm_eps", 1e-12),
        "pad_token_id": teacher.pad_token_id,
        "attention_sharing": "all",
        "ffn_sharing": "all",
    }
    return build_config({**fields, **(overrides or {})})


def build_config(fields: dict[str, Any]) -> AlbertPlusConfig:
    """A config from field values, unknown names refused.

    Raises:
        InvalidInput: no such field, or values that do not fit together.
    """
    from huggingface_hub.errors import StrictDataclassError

    known = list(AlbertPlusConfig.__dataclass_fields__)
    for name in fields:
        if name not in known:
            raise InvalidInput(
                "--set must name a field of AlbertPlusConfig", got=repr(name), repair=suggest(name, known)
            )
    try:
        return AlbertPlusConfig(**fields)
    except (StrictDataclassError, ValueError) as error:
        # The strict dataclass puts our sentence behind a line of its own.
        sentence = str(error).splitlines()[-1].strip().removeprefix("ValueError: ").removeprefix("TypeError: ")
        raise InvalidInput(
            "the values of a config must fit together", got=f"this: {sentence}", repair="change that value with --set"
        ) from None


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """`["ffn_sharing=2", "hidden_act=relu"]` -> `{"ffn_sharing": 2, "hidden_act": "relu"}`: values are JSON, or else
    strings.

    Raises:
        InvalidInput: a pair without `=`.
    """
    import json

    fields: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInput(
                "--set must have the form key=value", got=repr(pair), repair="use --set num_hidden_layers=4"
            )
        try:
            fields[key.strip()] = json.loads(value)
        except json.JSONDecodeError:
            fields[key.strip()] = value.strip()
    return fields


__all__ = ["VARIANTS", "build_config", "parse_settings", "student_of", "variant_config"]
