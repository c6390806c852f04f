"""Conversions between models of transformers and ALBERT-plus models that compute the same, and how far two models are apart."""

from collections.abc import Iterable
from typing import Any

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

from ..configuration_albert_plus import AlbertPlusConfig
from ..errors import InvalidInput, suggest
from ..heads import albert_plus_class, head_of
from ..model_inputs import longest_input, reads_token_types
from ..random_inputs import random_ids, seeded
from .families import FAMILIES, MOBILEBERT_EPS, Family, albert_blocks

_POOLED = ("Model", "ForPreTraining", "ForSequenceClassification", "ForMultipleChoice")
_BACK = ("albert", "bert", "mobilebert")


def converted_config(source: PreTrainedConfig, *, head: str) -> AlbertPlusConfig:
    """The config under which an ALBERT-plus model computes what a model with the config `source` and this head does.

    Raises:
        InvalidInput: there is none.
    """
    family = _family(source)
    obstacle = family.obstacle(source, head)
    if obstacle is not None:
        raise InvalidInput(
            f"a conversion needs a {family.name} that this encoder can be",
            got=obstacle,
            repair="distil this model into a student with albert-plus distill",
        )
    fields = {ours: getattr(source, theirs) for theirs, ours in family.fields.items() if hasattr(source, theirs)}
    return AlbertPlusConfig(**{**fields, **family.to_fields(source, head)})


def to_albert_plus(model: PreTrainedModel) -> PreTrainedModel:
    """The ALBERT-plus model with the same head that computes what `model` computes, in fp32 and eval mode.

    RoBERTa counts positions over real tokens only; here they are counted over all, so its conversions hold for texts
    padded on the right.

    Raises:
        InvalidInput: an architecture, head or config without a counterpart, or tensors without one on either side.
    """
    source = model.config
    if source.model_type == AlbertPlusConfig.model_type:
        return model
    family = _family(source)
    head = head_of(type(model).__name__, option="the model")
    config = converted_config(source, head=head)
    if head == "Model" and getattr(model, "pooler", None) is None:
        config.pooler = "none"
    modules = family.modules(source, config, head)
    tensors, unread = {}, []
    for key, tensor in model.state_dict().items():
        module, _, leaf = key.rpartition(".")
        if module in modules:
            tensors[f"{modules[module]}.{leaf}"] = tensor.detach().to(torch.float32, copy=True)
        else:
            unread.append(key)
    _mend(tensors, config, family=family, source=source, prefix="" if head == "Model" else "albert_plus.")
    return _load(albert_plus_class(head), config, tensors, unread=unread)


def from_albert_plus(model: PreTrainedModel, *, to: str) -> PreTrainedModel:
    """The BERT, ALBERT or MobileBERT model of transformers with the same head that computes what an ALBERT-plus model computes.

    BERT and MobileBERT get a copy of a shared block in every layer, ALBERT's groups keep it shared.

    Args:
        to: `bert`, `albert` or `mobilebert`.

    Raises:
        InvalidInput: that architecture cannot compute it.
    """
    if to not in _BACK:
        raise InvalidInput("--to must be a known architecture", got=repr(to), repair=suggest(to, [*_BACK, "encoder"]))
    ours: Any = model.config
    family = FAMILIES[to]
    head = head_of(type(model).__name__, option="the model")
    theirs = _their_config(ours, head=head, to=to)
    target: Any = getattr(transformers, f"{family.name}{head}")
    modules = family.modules(theirs, ours, head)
    with torch.device("meta"):
        shapes = {key: tensor.shape for key, tensor in target(theirs).state_dict().items()}
    state = model.state_dict()
    tensors, missing = {}, []
    for key, shape in shapes.items():
        module, _, leaf = key.rpartition(".")
        name = f"{modules.get(module)}.{leaf}"
        if name in state:
            tensors[key] = state[name].detach().to(torch.float32, copy=True)
        elif module.endswith("token_type_embeddings"):
            tensors[key] = torch.zeros(shape)
        elif module.endswith("embedding_hidden_mapping_in"):
            tensors[key] = torch.eye(*shape) if leaf == "weight" else torch.zeros(shape)
        else:
            missing.append(key)
    wanted = {f"{mine}.{leaf}" for mine in modules.values() for leaf in ("weight", "bias")}
    return _load(target, theirs, tensors, unread=[key for key in state if key not in wanted] + missing)


def _family(source: PreTrainedConfig) -> Family:
    if source.model_type not in FAMILIES:
        raise InvalidInput(
            f"exact conversions exist for the architectures {', '.join(FAMILIES)}",
            got=source.model_type,
            repair="start from one of those, or distil this model into a student with albert-plus distill",
        )
    return FAMILIES[source.model_type]


def _mend(
    tensors: dict[str, torch.Tensor], config: AlbertPlusConfig, *, family: Family, source: Any, prefix: str
) -> None:
    """Brings the embeddings into our shape, and gives every block the biases that theirs share, in place."""
    first = f"{prefix}encoder.attention.0.relative_bias.weight"
    if first in tensors:
        bias_1NB = tensors[first].T[None]
        for block in range(len(config.attention_heads)):
            tensors[first.replace("attention.0", f"attention.{block}")] = bias_1NB.clone()
    positions = f"{prefix}embeddings.position_embeddings.weight"
    tensors[positions] = tensors[positions][family.position_offset(source) :].clone()
    if config.embedding_size == config.hidden_size and not config.trigram_embeddings:
        weight = tensors.pop(f"{prefix}embeddings.projection.weight", None)
        bias = tensors.pop(f"{prefix}embeddings.projection.bias", None)
        if weight is not None and bias is not None and (bias.any() or not torch.equal(weight, torch.eye(len(weight)))):
            raise InvalidInput(
                "embedding_size and hidden_size must differ where the embeddings are projected: this encoder projects "
                "only then",
                got=f"{config.embedding_size} for both, and a projection that is not the identity",
                repair="distil this model into a student with albert-plus distill",
            )


# Fields that no architecture of transformers' has, with the values that leave them out.
_OURS_ALONE: dict[str, Any] = {
    "layer_rank": None, "relative_attention_buckets": None, "block_attention_heads": None, "block_intermediate_sizes": None,
}  # fmt: skip
_PLAIN: dict[str, Any] = {
    "norm_type": "layer_norm", "num_feedforward_networks": 1, "bottleneck_size": None, "trigram_embeddings": False,
}  # fmt: skip


def _obstacles(ours: AlbertPlusConfig, *, head: str, to: str) -> list[str]:
    """What that architecture cannot compute."""
    wanted = {**_OURS_ALONE, **({"trigram_embeddings": True} if to == "mobilebert" else _PLAIN),
              **({"pooling": "first"} if head in _POOLED else {}),
              **({"exit_layers": None} if head == "ForSequenceClassification" else {})}  # fmt: skip
    obstacles = [f"{name} {getattr(ours, name)!r}" for name, value in wanted.items() if getattr(ours, name) != value]
    poolers = ("tanh", "none") if to == "mobilebert" else ("tanh",)
    if head in _POOLED and ours.pooler not in poolers:
        obstacles.append(f"pooler {ours.pooler!r}")
    if to == "bert" and ours.embedding_size != ours.hidden_size:
        obstacles.append(f"embedding_size {ours.embedding_size} beside hidden_size {ours.hidden_size}")
    if to == "albert" and ours.attention_map != ours.ffn_map:
        obstacles.append("attention and feed-forward blocks that are shared differently")
    elif to == "albert" and _groups(ours) is None:
        obstacles.append(f"a sharing map that is not one of groups: {list(ours.attention_map)}")
    if to == "mobilebert":
        obstacles += _obstacles_of_mobilebert(ours, head=head)
    return obstacles


def _obstacles_of_mobilebert(ours: AlbertPlusConfig, *, head: str) -> list[str]:
    """What MobileBERT of transformers cannot compute of bottlenecks, norms and heads."""
    if head in ("ForMaskedLM", "ForPreTraining"):
        return ["a masked language modelling head with E columns a word, where that has H"]
    if ours.bottleneck_size is None:
        return ["bottleneck_size None"]
    obstacles = []
    if not ours.query_key_bottleneck and ours.bottleneck_size != ours.hidden_size:
        obstacles.append(f"query_key_bottleneck False beside bottleneck_size {ours.bottleneck_size}")
    if ours.norm_type == "layer_norm" and ours.layer_norm_eps != MOBILEBERT_EPS:
        obstacles.append(f"layer_norm_eps {ours.layer_norm_eps}, where two of its norms have {MOBILEBERT_EPS}")
    return obstacles


def _their_config(ours: AlbertPlusConfig, *, head: str, to: str) -> PreTrainedConfig:
    obstacles = _obstacles(ours, head=head, to=to)
    if obstacles:
        others = [other for other in _BACK if not _obstacles(ours, head=head, to=other)]
        raise InvalidInput(
            f"{FAMILIES[to].name} must be able to compute what the model does",
            got="; ".join(obstacles),
            repair=f"use --to {others[0]}" if others else "keep it as an ALBERT-plus model",
        )
    fields = {theirs: getattr(ours, mine) for theirs, mine in FAMILIES[to].fields.items()}
    fields["type_vocab_size"] = max(ours.type_vocab_size, 1)
    if head in ("ForQuestionAnswering", "ForPreTraining"):
        # These heads have two outputs here whatever num_labels says; in transformers it sizes them.
        fields = {name: value for name, value in fields.items() if name not in ("id2label", "label2id")}
    more: dict[str, Any]
    if to == "albert":
        more = {
            **(_groups(ours) or {}),
            "embedding_size": ours.embedding_size,
            "classifier_dropout_prob": ours.classifier_dropout_prob,
        }
        return transformers.AlbertConfig(**fields, **more)
    more = {"num_hidden_layers": ours.num_hidden_layers, "classifier_dropout": ours.classifier_dropout_prob}
    if to == "bert":
        return transformers.BertConfig(**fields, **more)
    return transformers.MobileBertConfig(
        **fields,
        **more,
        embedding_size=ours.embedding_size,
        intra_bottleneck_size=ours.bottleneck_size or ours.hidden_size,
        key_query_shared_bottleneck=ours.query_key_bottleneck,
        num_feedforward_networks=ours.num_feedforward_networks,
        normalization_type=ours.norm_type,
        classifier_activation=ours.pooler == "tanh",
    )


def _groups(ours: AlbertPlusConfig) -> dict[str, Any] | None:
    """The fields of transformers' ALBERT whose layers run our blocks, with as few inner layers as do, or None. Attention and
    feed-forward blocks are shared alike."""
    depth = ours.num_hidden_layers
    for inner in (n for n in range(1, depth + 1) if depth % n == 0):
        for groups in range(1, depth // inner + 1):
            fields: dict[str, Any] = {
                "num_hidden_layers": depth // inner,
                "num_hidden_groups": groups,
                "inner_group_num": inner,
            }
            if tuple(albert_blocks(transformers.AlbertConfig(**fields))) == ours.attention_map:
                return fields
    return None


def _load(
    kind: Any, config: PreTrainedConfig, tensors: dict[str, torch.Tensor], *, unread: Iterable[str]
) -> PreTrainedModel:
    loaded: Any = kind.from_pretrained(
        None,
        config=config,
        state_dict=tensors,
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        dtype=torch.float32,
    )
    model, report = loaded
    left = sorted([*unread, *report["unexpected_keys"]])
    missing = sorted(report["missing_keys"])
    other_shapes = sorted(str(key) for key, *_ in report["mismatched_keys"])
    if left or missing or other_shapes:
        raise InvalidInput(
            "every tensor must have a counterpart of its shape",
            got=f"unread {left}, missing {missing}, of another shape {other_shapes}",
            repair="convert a checkpoint of an unmodified architecture",
        )
    return model.eval()


# The one output that transformers' heads of the same kind name differently.
_RENAMED = {"seq_relationship_logits": "sop_logits"}
# Outputs with an entry a token, beside those of three dimensions.
_OF_TOKENS = ("start_logits", "end_logits")


def random_batch(model: PreTrainedModel, *, choices: bool = False) -> dict[str, torch.Tensor]:
    """Rows of random tokens and, where the model reads them, token types, `[4, S]`, or `[4, 3, S]` with choices. One
    row is padded on the right, with the padding token where there is one, since RoBERTa counts positions by it."""
    config = model.config
    generator, padding = seeded(0), config.pad_token_id or 0
    length = min(24, max(longest_input(config) // 2, 1))
    ids = random_ids(config, (4, length), generator=generator, without=padding)
    mask = torch.ones_like(ids)
    mask[1, length // 2 :] = 0
    ids[mask == 0] = padding
    batch = {"input_ids": ids, "attention_mask": mask}
    if reads_token_types(config):
        batch["token_type_ids"] = torch.randint(config.type_vocab_size, ids.shape, generator=generator)
    return {name: tensor[:, None].repeat(1, 3, 1) for name, tensor in batch.items()} if choices else batch


@torch.no_grad()
def max_difference(first: PreTrainedModel, second: PreTrainedModel) -> float:
    """Largest difference between two models of one head in eval mode, over all their outputs and hidden states at real
    tokens. A tensor that reaches beyond 1 is measured relative to its largest value.

    Raises:
        ValueError: the models have another number of layers, or no output in common.
    """
    choices = type(first).__name__.endswith("ForMultipleChoice")
    # The one with fewer token types and positions decides what both can read.
    fewer = min(
        first, second, key=lambda model: (reads_token_types(model.config), model.config.max_position_embeddings)
    )
    batch = random_batch(fewer, choices=choices)
    kept = batch["attention_mask"].bool()
    outputs = []
    for model in (first, second):
        was_training = model.training
        outputs.append(_named(model.eval()(**batch, output_hidden_states=True)))
        model.train(was_training)
    common = outputs[0].keys() & outputs[1].keys()
    if not common - {"hidden_states"}:
        raise ValueError(f"no output in common: {sorted(outputs[0])} and {sorted(outputs[1])}")
    differences = [
        _difference(one, other, kept=kept.flatten(0, -2) if one.dim() == 3 or name in _OF_TOKENS else None)
        for name in common
        for one, other in zip(outputs[0][name], outputs[1][name], strict=True)
    ]
    return float(torch.stack(differences).max())


def _named(output: Any) -> dict[str, tuple[torch.Tensor, ...]]:
    tensors = {_RENAMED.get(name, name): value for name, value in output.items()}
    return {name: value if isinstance(value, tuple) else (value,) for name, value in tensors.items()}


def _difference(one: torch.Tensor, other: torch.Tensor, *, kept: torch.Tensor | None) -> torch.Tensor:
    if kept is not None:
        one, other = one[kept], other[kept]
    return (one - other).abs().max() / one.abs().max().clamp(min=1)
