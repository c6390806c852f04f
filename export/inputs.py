"""What every engine checks before it computes: names, types, shapes, ids, lengths."""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedConfig

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.heads import architecture_of

NAMES = ("input_ids", "attention_mask", "token_type_ids")


# Architectures that count positions from past the padding token, as RoBERTa does.
_OFFSET = {"camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "xmod"}


def longest_input(config: PreTrainedConfig) -> int:
    """Tokens in the longest sequence a model takes."""
    positions = int(getattr(config, "max_position_embeddings", None) or 512)
    has_offset = "roberta" in config.model_type or config.model_type in _OFFSET
    return positions - (int(config.pad_token_id or 0) + 1 if has_offset else 0)


def input_rank(config: PreTrainedConfig) -> int:
    """Axes of a model's inputs: batch and sequence, and choices between them for multiple choice."""
    return 3 if architecture_of(config).endswith("ForMultipleChoice") else 2


def check_tensors(tensors: Mapping[str, Any], names: tuple[str, ...], config: PreTrainedConfig) -> None:
    """Refuses what a runtime would answer with an exception of its own, or with a wrong result.

    Args:
        names: the tensors that the engine reads.

    Raises:
        InvalidInput: a tensor is missing, no integer tensor, of another shape than the ids, or out of range.
    """
    missing = [name for name in names if tensors.get(name) is None]
    if missing:
        raise InvalidInput(
            f"this engine reads {', '.join(names)}",
            got=f"no {', '.join(missing)}",
            repair="pass what the tokenizer returns",
        )
    for name in names:
        _check_type(name, tensors[name])
    ids = tensors["input_ids"]
    if ids.dim() != input_rank(config) or ids.numel() == 0:
        axes = "[batch, sequence]" if input_rank(config) == 2 else "[batch, choices, sequence]"
        raise InvalidInput(
            f"input_ids must be {axes} with at least one token",
            got=f"shape {list(ids.shape)}",
            repair='tokenise a list of texts with return_tensors="pt"',
        )
    for name in names:
        if tensors[name].shape != ids.shape:
            raise InvalidInput(
                f"{name} must have the shape of input_ids, {list(ids.shape)}",
                got=list(tensors[name].shape),
                repair="pass what one call of the tokenizer returns",
            )
    longest = longest_input(config)
    if ids.shape[-1] > longest:
        raise InvalidInput(
            f"sequences may have at most {longest} tokens",
            got=ids.shape[-1],
            repair=f"tokenise with truncation=True, max_length={longest}",
        )
    limits = {"input_ids": config.vocab_size, "attention_mask": 2}
    if getattr(config, "type_vocab_size", 0):
        limits["token_type_ids"] = config.type_vocab_size
    for name in names:
        if name in limits:
            _check_range(name, tensors[name], limits[name])


def _check_type(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidInput(
            f"{name} must be a tensor", got=type(tensor).__name__, repair='tokenise with return_tensors="pt"'
        )
    if tensor.dtype not in (torch.int64, torch.int32):
        raise InvalidInput(
            f"{name} must hold int64", got=str(tensor.dtype).removeprefix("torch."), repair="call .long()"
        )


def _check_range(name: str, tensor: torch.Tensor, limit: int) -> None:
    low, high = (int(value) for value in torch.aminmax(tensor))
    if low < 0 or high >= limit:
        raise InvalidInput(
            f"{name} must lie between 0 and {limit - 1}",
            got=low if low < 0 else high,
            repair="use the tokenizer of this model" if name == "input_ids" else "pass what the tokenizer returns",
        )


__all__ = ["NAMES", "check_tensors", "input_rank", "longest_input"]
