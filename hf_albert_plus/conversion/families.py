"""Architectures of transformers whose function this encoder has: the names of their fields and modules beside ours.

A map reads theirs -> ours and serves both directions. In the modules of a layer `{a}` and `{f}` stand for the attention
and the feed-forward block of that layer.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedConfig

from ..configuration_albert_plus import AlbertPlusConfig
from ..model_inputs import longest_input, position_offset

_FIELDS = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "hidden_act", "hidden_dropout_prob",
           "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size", "initializer_range",
           "layer_norm_eps", "pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings", "problem_type",
           "id2label", "label2id")  # fmt: skip
_EMBEDDINGS = {
    "embeddings.word_embeddings": "embeddings.word_embeddings",
    "embeddings.position_embeddings": "embeddings.position_embeddings",
    "embeddings.token_type_embeddings": "embeddings.token_type_embeddings",
    "embeddings.LayerNorm": "embeddings.layer_norm",
}
_BERT_LAYER = {
    "attention.self.query": "attention.{a}.query",
    "attention.self.key": "attention.{a}.key",
    "attention.self.value": "attention.{a}.value",
    "attention.output.dense": "attention.{a}.output",
    "attention.output.LayerNorm": "attention.{a}.layer_norm",
    "intermediate.dense": "ffn.{f}.intermediate",
    "output.dense": "ffn.{f}.output",
    "output.LayerNorm": "ffn.{f}.layer_norm",
}


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        name: the class names' prefix.
        prefix: the encoder's name in a model with a head.
        fields: config fields, theirs -> ours.
        layer_name: the path of the layer that runs at a place in the sequence of layers.
        layer: modules below that path.
        encoder: modules outside the layers.
        heads: modules outside the encoder, beside `classifier` and `qa_outputs`, which all families call so.
        to_fields: config fields of ours that need more than a name, from their config and the head.
        obstacle: why one of their configs has no equal here, or None.
        position_offset: rows of the position table below that of the first token.
    """

    name: str
    prefix: str
    layer_name: Callable[[PreTrainedConfig, int], str]
    layer: dict[str, str]
    encoder: dict[str, str]
    to_fields: Callable[[PreTrainedConfig, str], dict[str, Any]]
    fields: dict[str, str] = field(default_factory=lambda: {name: name for name in _FIELDS})
    heads: dict[str, str] = field(default_factory=dict)
    obstacle: Callable[[PreTrainedConfig, str], str | None] = lambda config, head: None
    position_offset: Callable[[PreTrainedConfig], int] = lambda config: 0

    def modules(self, theirs: PreTrainedConfig, ours: AlbertPlusConfig, head: str) -> dict[str, str]:
        """Every module with weights of their model -> the module of ours with the same ones."""
        prefix = "" if head == "Model" else f"{self.prefix}."
        our_prefix = "" if head == "Model" else "albert_plus."
        names = {f"{prefix}{name}": f"{our_prefix}{mine}" for name, mine in self.encoder.items()}
        for layer, (a, f) in enumerate(zip(ours.attention_map, ours.ffn_map, strict=True)):
            path = f"{prefix}{self.layer_name(theirs, layer)}"
            for name, mine in self.layer.items():
                names[f"{path}.{name}"] = f"{our_prefix}encoder.{mine.format(a=a, f=f)}"
            for network in range(ours.num_feedforward_networks - 1):
                for name, mine in _STACKED.items():
                    names[f"{path}.ffn.{network}.{name}"] = f"{our_prefix}encoder.ffn.{f}.stacked.{network}.{mine}"
        return {**names, "classifier": "classifier", "qa_outputs": "qa_outputs", **self.heads}


_STACKED = {"intermediate.dense": "intermediate", "output.dense": "output", "output.LayerNorm": "layer_norm"}


def _unshared(config: PreTrainedConfig) -> dict[str, Any]:
    return {
        "num_hidden_layers": config.num_hidden_layers,
        "embedding_size": config.hidden_size,
        "attention_sharing": "none",
        "ffn_sharing": "none",
    }


def _classifier_dropout(config: Any) -> float:
    return config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout


def _decoder_obstacle(config: Any, head: str) -> str | None:
    for name in ("is_decoder", "add_cross_attention"):
        if getattr(config, name, False):
            return f"{name}: this encoder reads in both directions and has no second input"
    positions = getattr(config, "position_embedding_type", None) or "absolute"
    return None if positions == "absolute" else f"position_embedding_type {positions!r}: positions here are absolute"


_BERT = Family(
    name="Bert",
    prefix="bert",
    layer_name=lambda config, layer: f"encoder.layer.{layer}",
    layer=_BERT_LAYER,
    encoder={**_EMBEDDINGS, "pooler.dense": "pooler"},
    heads={
        "cls.predictions.transform.dense": "predictions.dense",
        "cls.predictions.transform.LayerNorm": "predictions.layer_norm",
        "cls.predictions.decoder": "predictions.decoder",
        "cls.predictions": "predictions.decoder",
        "cls.seq_relationship": "sentence_order",
    },
    to_fields=lambda config, head: {
        **_unshared(config),
        "classifier_dropout_prob": _classifier_dropout(config),
    },
    obstacle=_decoder_obstacle,
)


def albert_group(config: Any, layer: int) -> int:
    """Group of a layer in transformers' ALBERT, its float rounding included."""
    return int(layer / (config.num_hidden_layers / config.num_hidden_groups))


def albert_blocks(config: Any) -> list[int]:
    """Block of every layer as transformers' ALBERT runs them: each layer runs all inner layers of its group."""
    groups = [albert_group(config, layer) for layer in range(config.num_hidden_layers)]
    used = {group: number for number, group in enumerate(sorted(set(groups)))}
    return [used[group] * config.inner_group_num + inner for group in groups for inner in range(config.inner_group_num)]


def _albert_layer_name(config: Any, layer: int) -> str:
    outer, inner = divmod(layer, config.inner_group_num)
    return f"encoder.albert_layer_groups.{albert_group(config, outer)}.albert_layers.{inner}"


def _albert_fields(config: Any, head: str) -> dict[str, Any]:
    blocks = albert_blocks(config)
    sharing: Any = "all" if len(set(blocks)) == 1 else "none" if blocks == list(range(len(blocks))) else blocks
    return {
        "embedding_size": config.embedding_size,
        "num_hidden_layers": len(blocks),
        "attention_sharing": sharing,
        "ffn_sharing": sharing,
        "classifier_dropout_prob": config.classifier_dropout_prob,
    }


def _albert_obstacle(config: Any, head: str) -> str | None:
    if head == "ForPreTraining" and config.num_labels != 2:
        return f"num_labels {config.num_labels}: it sizes the sentence order classifier, which has 2 here"
    return None


_ALBERT = Family(
    name="Albert",
    prefix="albert",
    layer_name=_albert_layer_name,
    layer={
        "attention.query": "attention.{a}.query",
        "attention.key": "attention.{a}.key",
        "attention.value": "attention.{a}.value",
        "attention.dense": "attention.{a}.output",
        "attention.LayerNorm": "attention.{a}.layer_norm",
        "ffn": "ffn.{f}.intermediate",
        "ffn_output": "ffn.{f}.output",
        "full_layer_layer_norm": "ffn.{f}.layer_norm",
    },
    encoder={**_EMBEDDINGS, "encoder.embedding_hidden_mapping_in": "embeddings.projection", "pooler": "pooler"},
    heads={
        "predictions.dense": "predictions.dense",
        "predictions.LayerNorm": "predictions.layer_norm",
        "predictions.decoder": "predictions.decoder",
        "predictions": "predictions.decoder",
        "sop_classifier.classifier": "sentence_order",
    },
    to_fields=_albert_fields,
    obstacle=_albert_obstacle,
)
_DISTILBERT = Family(
    name="DistilBert",
    prefix="distilbert",
    layer_name=lambda config, layer: f"transformer.layer.{layer}",
    layer={
        "attention.q_lin": "attention.{a}.query",
        "attention.k_lin": "attention.{a}.key",
        "attention.v_lin": "attention.{a}.value",
        "attention.out_lin": "attention.{a}.output",
        "sa_layer_norm": "attention.{a}.layer_norm",
        "ffn.lin1": "ffn.{f}.intermediate",
        "ffn.lin2": "ffn.{f}.output",
        "output_layer_norm": "ffn.{f}.layer_norm",
    },
    encoder=_EMBEDDINGS,
    fields={
        **{name: name for name in _FIELDS},
        "hidden_dim": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "seq_classif_dropout": "classifier_dropout_prob",
    },
    heads={
        "pre_classifier": "albert_plus.pooler",
        "vocab_transform": "predictions.dense",
        "vocab_layer_norm": "predictions.layer_norm",
        "vocab_projector": "predictions.decoder",
    },
    to_fields=lambda config, head: {
        **_unshared(config),
        "type_vocab_size": 0,
        "pooler": "relu" if head in ("ForSequenceClassification", "ForMultipleChoice") else "none",
    },
)


def _roberta_obstacle(config: Any, head: str) -> str | None:
    if config.pad_token_id is None:
        return "pad_token_id None: its positions are counted from that token's"
    if head == "ForMaskedLM" and config.hidden_act != "gelu":
        return f"hidden_act {config.hidden_act!r}: its head always has gelu, the head here has hidden_act"
    return _decoder_obstacle(config, head)


_ROBERTA_HEADS = {
    "classifier.dense": "albert_plus.pooler",
    "classifier.out_proj": "classifier",
    "lm_head.dense": "predictions.dense",
    "lm_head.layer_norm": "predictions.layer_norm",
    "lm_head.decoder": "predictions.decoder",
    "lm_head": "predictions.decoder",
}


def _roberta(name: str) -> Family:
    return Family(
        name=name,
        prefix="roberta",
        layer_name=lambda config, layer: f"encoder.layer.{layer}",
        layer=_BERT_LAYER,
        encoder={**_EMBEDDINGS, "pooler.dense": "pooler"},
        heads=_ROBERTA_HEADS,
        to_fields=lambda config, head: {
            **_unshared(config),
            "max_position_embeddings": longest_input(config),
            "classifier_dropout_prob": _classifier_dropout(config),
        },
        obstacle=_roberta_obstacle,
        position_offset=position_offset,
    )


# What transformers' MPNet counts with, whatever its config says.
_MPNET_BUCKETS = 32


def _mpnet_obstacle(config: Any, head: str) -> str | None:
    if config.relative_attention_num_buckets != _MPNET_BUCKETS:
        return f"relative_attention_num_buckets {config.relative_attention_num_buckets}: transformers counts with {_MPNET_BUCKETS}"
    if config.pad_token_id != 1:
        return f"pad_token_id {config.pad_token_id}: its positions are counted from 1"
    return _roberta_obstacle(config, head)


_MPNET = Family(
    name="MPNet",
    prefix="mpnet",
    layer_name=lambda config, layer: f"encoder.layer.{layer}",
    layer={
        "attention.attn.q": "attention.{a}.query",
        "attention.attn.k": "attention.{a}.key",
        "attention.attn.v": "attention.{a}.value",
        "attention.attn.o": "attention.{a}.output",
        "attention.LayerNorm": "attention.{a}.layer_norm",
        "intermediate.dense": "ffn.{f}.intermediate",
        "output.dense": "ffn.{f}.output",
        "output.LayerNorm": "ffn.{f}.layer_norm",
    },
    encoder={
        **_EMBEDDINGS,
        "encoder.relative_attention_bias": "encoder.attention.0.relative_bias",
        "pooler.dense": "pooler",
    },
    heads=_ROBERTA_HEADS,
    to_fields=lambda config, head: {
        **_unshared(config),
        "type_vocab_size": 0,
        "max_position_embeddings": longest_input(config),
        "relative_attention_buckets": _MPNET_BUCKETS,
        "classifier_dropout_prob": config.hidden_dropout_prob,
    },
    obstacle=_mpnet_obstacle,
    position_offset=position_offset,
)


# What transformers' MobileBert normalises with in two of its LayerNorms, whatever its config says.
MOBILEBERT_EPS = 1e-5


def _mobilebert_obstacle(config: Any, head: str) -> str | None:
    if head in ("ForMaskedLM", "ForPreTraining"):
        return "its masked language modelling head has H columns a word, the head here has E"
    wanted = {"trigram_input": True, "use_bottleneck": True, "use_bottleneck_attention": False}
    for name, value in wanted.items():
        if getattr(config, name) != value:
            return f"{name} {getattr(config, name)!r}: the bottleneck here is the one with {value!r}"
    if not config.key_query_shared_bottleneck and config.intra_bottleneck_size != config.hidden_size:
        return "key_query_shared_bottleneck False: transformers' own model runs with one width alone then"
    if config.normalization_type == "layer_norm" and config.layer_norm_eps != MOBILEBERT_EPS:
        return f"layer_norm_eps {config.layer_norm_eps}: two of its norms have {MOBILEBERT_EPS}, whatever that says"
    return None


_MOBILEBERT = Family(
    name="MobileBert",
    prefix="mobilebert",
    layer_name=lambda config, layer: f"encoder.layer.{layer}",
    layer={
        **_BERT_LAYER,
        "bottleneck.input.dense": "attention.{a}.residual_bottleneck.dense",
        "bottleneck.input.LayerNorm": "attention.{a}.residual_bottleneck.layer_norm",
        "bottleneck.attention.dense": "attention.{a}.query_key_bottleneck.dense",
        "bottleneck.attention.LayerNorm": "attention.{a}.query_key_bottleneck.layer_norm",
        "output.bottleneck.dense": "ffn.{f}.expansion",
        "output.bottleneck.LayerNorm": "ffn.{f}.expansion_layer_norm",
    },
    encoder={**_EMBEDDINGS, "embeddings.embedding_transformation": "embeddings.projection", "pooler.dense": "pooler"},
    to_fields=lambda config, head: {
        **_unshared(config),
        "embedding_size": config.embedding_size,
        "trigram_embeddings": True,
        "norm_type": config.normalization_type,
        "bottleneck_size": config.intra_bottleneck_size,
        "query_key_bottleneck": config.key_query_shared_bottleneck,
        "num_feedforward_networks": config.num_feedforward_networks,
        "pooler": "tanh" if config.classifier_activation else "none",
        "classifier_dropout_prob": _classifier_dropout(config),
    },
    obstacle=_mobilebert_obstacle,
)
FAMILIES = {
    "albert": _ALBERT,
    "bert": _BERT,
    "distilbert": _DISTILBERT,
    "mobilebert": _MOBILEBERT,
    "mpnet": _MPNET,
    "roberta": _roberta("Roberta"),
    "xlm-roberta": _roberta("XLMRoberta"),
}
CONVERTIBLE = ("albert_plus", *FAMILIES)
