"""Variants: named architectures, each a row of numbers with its source. The table needs neither torch nor transformers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from .errors import InvalidInput, suggest

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


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
SHARED = {"attention_sharing": "all", "ffn_sharing": "all"}
UNSHARED = {"attention_sharing": "none", "ffn_sharing": "none"}
# Of a teacher's layers, which a student has.
Part = Literal["half", "third"]
PARTS = get_args(Part)
_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_BERT = {"vocab_size": 30522, **UNSHARED, "hidden_act": "gelu", **_DROPOUT}
# The release notes of the 2019 code: v2 is trained longer, without dropout; v1-xxlarge had none either.
_ALBERT_V1, _ALBERT_V2 = "ALBERT, Table 1 (v1, with dropout)", "ALBERT, Table 1 (v2)"
_STUDY = {"all": SHARED, "attention": {"attention_sharing": "all", "ffn_sharing": "none"},
          "ffn": {"attention_sharing": "none", "ffn_sharing": "all"},
          "none": UNSHARED}  # fmt: skip


def _shape(hidden_size: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {"hidden_size": hidden_size, "num_hidden_layers": layers, "num_attention_heads": heads,
            "intermediate_size": 4 * hidden_size, **more}  # fmt: skip


def _albert(hidden_size: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {**SHARED, **_shape(hidden_size, layers, heads), **more}


def _bert(hidden_size: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {**_BERT, **_shape(hidden_size, layers, heads, embedding_size=hidden_size), **more}


def published_training_speedup(config: "PreTrainedConfig") -> float | None:
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
    "ib-bert": Variant(
        "MobileBERT, Table 1 (IB-BERT, its teacher)",
        _bert(512, 24, 4, embedding_size=128, trigram_embeddings=True, intermediate_size=4096, bottleneck_size=1024,
              query_key_bottleneck=False),
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
