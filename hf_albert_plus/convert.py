"""Exact conversions: BERT and ALBERT checkpoints of transformers -> the same function as an ALBERT-plus model."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
)

from .checkpoints import from_pretrained, load_config
from .configuration_albert_plus import AlbertPlusConfig
from .errors import InvalidInput
from .glue import load_tokenizer
from .modeling_albert_plus import AlbertPlusForMaskedLM, AlbertPlusForSequenceClassification, AlbertPlusModel
from .records import Record, parent, run_stage

# Modules of one layer: the source's name below the layer -> ours, with the block id to fill in.
_BERT_LAYER = {
    "attention.self.query": "attention.{block}.query",
    "attention.self.key": "attention.{block}.key",
    "attention.self.value": "attention.{block}.value",
    "attention.output.dense": "attention.{block}.output",
    "attention.output.LayerNorm": "attention.{block}.layer_norm",
    "intermediate.dense": "ffn.{block}.intermediate",
    "output.dense": "ffn.{block}.output",
    "output.LayerNorm": "ffn.{block}.layer_norm",
}
_ALBERT_LAYER = {
    "attention.query": "attention.{block}.query",
    "attention.key": "attention.{block}.key",
    "attention.value": "attention.{block}.value",
    "attention.dense": "attention.{block}.output",
    "attention.LayerNorm": "attention.{block}.layer_norm",
    "ffn": "ffn.{block}.intermediate",
    "ffn_output": "ffn.{block}.output",
    "full_layer_layer_norm": "ffn.{block}.layer_norm",
}
_EMBEDDINGS = {
    "embeddings.word_embeddings": "embeddings.word_embeddings",
    "embeddings.position_embeddings": "embeddings.position_embeddings",
    "embeddings.token_type_embeddings": "embeddings.token_type_embeddings",
    "embeddings.LayerNorm": "embeddings.layer_norm",
}
_BERT_HEADS = {
    "classifier": "classifier",
    "cls.predictions.transform.dense": "predictions.dense",
    "cls.predictions.transform.LayerNorm": "predictions.layer_norm",
    "cls.predictions.decoder": "predictions.decoder",
    "cls.predictions": "predictions",
}
_ALBERT_HEADS = {
    "classifier": "classifier",
    "predictions.dense": "predictions.dense",
    "predictions.LayerNorm": "predictions.layer_norm",
    "predictions.decoder": "predictions.decoder",
    "predictions": "predictions",
}
_COPIED = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "hidden_act", "hidden_dropout_prob",
           "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size", "initializer_range",
           "layer_norm_eps", "pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings", "id2label",
           "label2id", "problem_type")  # fmt: skip
CONVERTIBLE = ("albert", "albert_plus", "bert")


def _sharing(blocks: list[int]) -> str | list[int]:
    if len(set(blocks)) == 1:
        return "all"
    return "none" if blocks == list(range(len(blocks))) else blocks


def _albert_group(config: PreTrainedConfig, layer: int) -> int:
    """Group of a layer in transformers' ALBERT, its float rounding included."""
    return int(layer / (config.num_hidden_layers / config.num_hidden_groups))


def _albert_blocks(config: PreTrainedConfig) -> list[int]:
    """Block of every layer as transformers' ALBERT runs them."""
    groups = [_albert_group(config, layer) for layer in range(config.num_hidden_layers)]
    used = {group: number for number, group in enumerate(sorted(set(groups)))}
    return [used[group] * config.inner_group_num + inner for group in groups for inner in range(config.inner_group_num)]


def converted_config(source: PreTrainedConfig) -> AlbertPlusConfig:
    """The config under which an ALBERT-plus model computes what the source computes."""
    fields: dict[str, Any] = {name: getattr(source, name) for name in _COPIED if hasattr(source, name)}
    if source.model_type == "bert":
        dropout = source.classifier_dropout
        return AlbertPlusConfig(
            **fields,
            embedding_size=source.hidden_size,
            num_hidden_layers=source.num_hidden_layers,
            attention_sharing="none",
            ffn_sharing="none",
            classifier_dropout_prob=source.hidden_dropout_prob if dropout is None else dropout,
        )
    if source.embedding_size == source.hidden_size:
        raise InvalidInput(
            "an exact conversion needs embedding_size to differ from hidden_size: transformers' ALBERT projects even "
            "where they are equal, this encoder does not",
            got=f"{source.embedding_size} for both",
            repair="fold the projection into the embeddings first",
        )
    blocks = _albert_blocks(source)
    return AlbertPlusConfig(
        **fields,
        embedding_size=source.embedding_size,
        num_hidden_layers=len(blocks),
        attention_sharing=_sharing(blocks),
        ffn_sharing=_sharing(blocks),
        classifier_dropout_prob=source.classifier_dropout_prob,
    )


def _module_map(source: PreTrainedConfig) -> dict[str, str]:
    """Module name in the source -> in ours, encoder names without the base prefix."""
    names = dict(_EMBEDDINGS)
    if source.model_type == "bert":
        for layer in range(source.num_hidden_layers):
            for theirs, ours in _BERT_LAYER.items():
                names[f"encoder.layer.{layer}.{theirs}"] = f"encoder.{ours.format(block=layer)}"
        return {**names, "pooler.dense": "pooler"}
    blocks = iter(_albert_blocks(source))
    for layer in range(source.num_hidden_layers):
        group = _albert_group(source, layer)
        for inner in range(source.inner_group_num):
            block = next(blocks)
            for theirs, ours in _ALBERT_LAYER.items():
                names[f"encoder.albert_layer_groups.{group}.albert_layers.{inner}.{theirs}"] = (
                    f"encoder.{ours.format(block=block)}"
                )
    return {**names, "encoder.embedding_hidden_mapping_in": "embeddings.projection", "pooler": "pooler"}


def to_albert_plus(model: PreTrainedModel) -> PreTrainedModel:
    """The ALBERT-plus model that computes what a BERT or ALBERT model of transformers computes.

    Bare encoders, sequence classifiers and masked language models convert, each to its own kind.

    Raises:
        InvalidInput: another architecture or head, or tensors without a counterpart on either side.
    """
    source = model.config
    if source.model_type == "albert_plus":
        return model
    if source.model_type not in CONVERTIBLE:
        raise InvalidInput(
            "exact conversions exist for the architectures albert and bert",
            got=source.model_type,
            repair="start from one of those, or distil this model into a student with albert-plus distill",
        )
    name = type(model).__name__
    kinds = {"ForSequenceClassification": AlbertPlusForSequenceClassification, "ForMaskedLM": AlbertPlusForMaskedLM,
             "Model": AlbertPlusModel}  # fmt: skip
    kind = next((ours for suffix, ours in kinds.items() if name.endswith(suffix)), None)
    if kind is None:
        raise InvalidInput(
            "a bare encoder, sequence classifier or masked language model converts",
            got=name,
            repair=f"open it as one of {', '.join(kinds)}",
        )
    config = converted_config(source)
    heads = _BERT_HEADS if source.model_type == "bert" else _ALBERT_HEADS
    encoder = "" if kind is AlbertPlusModel else f"{model.base_model_prefix}."
    ours = "" if kind is AlbertPlusModel else "albert_plus."
    modules = {f"{encoder}{theirs}": f"{ours}{mine}" for theirs, mine in _module_map(source).items()} | heads
    tensors, unread = {}, []
    for key, tensor in model.state_dict().items():
        module, _, leaf = key.rpartition(".")
        if module in modules:
            tensors[f"{modules[module]}.{leaf}"] = tensor.detach().clone()
        else:
            unread.append(key)
    loaded: Any = kind.from_pretrained(
        None, config=config, state_dict=tensors, output_loading_info=True, dtype=torch.float32
    )
    converted, report = loaded
    missing = sorted(report["missing_keys"])
    if unread or missing or report["unexpected_keys"]:
        raise InvalidInput(
            "every tensor must have a counterpart",
            got=f"unread {unread + sorted(report['unexpected_keys'])}, missing {missing}",
            repair="convert a checkpoint of an unmodified architecture",
        )
    return converted.eval()


_OPENERS: dict[str, Any] = {
    "ForSequenceClassification": AutoModelForSequenceClassification,
    "ForMaskedLM": AutoModelForMaskedLM,
    "Model": AutoModel,
}


def open_as_trained(source: str | Path, *, option: str) -> PreTrainedModel:
    """Opens a checkpoint with the head it was saved with, in fp32.

    Raises:
        InvalidInput: a head that does not convert, or missing weights.
    """
    config = load_config(source, option=option)
    architecture = (config.architectures or ["no architectures"])[0]
    opener = next((opener for suffix, opener in _OPENERS.items() if architecture.endswith(suffix)), None)
    if opener is None:
        raise InvalidInput(
            f"{option} must be a bare encoder, sequence classifier or masked language model by its config",
            got=f"{architecture} in {source}",
            repair="save the part you need with save_pretrained first",
        )
    model, report = from_pretrained(opener, source, option=option)
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise InvalidInput(
            f"{option} must hold all weights of {architecture}",
            got=f"{len(missing)} missing ({missing[0]} …) in {source}",
            repair="save the checkpoint again from a complete model",
        )
    return model.eval()


def convert(source: str, *, output: Path) -> Record:
    """Converts a BERT or ALBERT directory or Hub id into an ALBERT-plus directory, and checks it on random tokens.

    Args:
        output: the directory to make: model, tokenizer, record.json.
    """

    def work(directory: Path) -> dict[str, Any]:
        model = open_as_trained(source, option="SOURCE")
        converted = to_albert_plus(model)
        difference = max_difference(model, converted)
        if not difference <= 1e-4:
            raise InvalidInput(
                "a conversion must change outputs by at most 1e-4",
                got=f"{difference:.3g}",
                repair="report this checkpoint's config",
            )
        converted.save_pretrained(directory)
        load_tokenizer(source, converted.config).save_pretrained(directory)
        return {
            "architecture": type(converted).__name__,
            "parameters": converted.num_parameters(),
            "max_abs_difference": difference,
        }

    return run_stage("convert", output, settings={}, parents={"source": parent(source)}, work=work)


@torch.no_grad()
def max_difference(first: PreTrainedModel, second: PreTrainedModel) -> float:
    """Largest difference of the first outputs of two models, over a padded batch of random tokens and token types."""
    generator = torch.Generator().manual_seed(0)
    length = min(24, first.config.max_position_embeddings)
    ids = torch.randint(first.config.vocab_size, (4, length), generator=generator)
    types = torch.randint(first.config.type_vocab_size, ids.shape, generator=generator)
    mask = torch.ones_like(ids)
    mask[1, length // 2 :] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    kept = mask.bool()
    one, other = first(**inputs)[0], second(**inputs)[0]
    if one.dim() == 3:
        one, other = one[kept], other[kept]
    return float((one - other).abs().max())


__all__ = ["CONVERTIBLE", "convert", "converted_config", "max_difference", "open_as_trained", "to_albert_plus"]
