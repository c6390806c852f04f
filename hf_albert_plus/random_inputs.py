"""Random inputs of the form that a model reads: for traces, comparisons and timings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedConfig

from .model_inputs import NAMES, axis_names, input_names, input_rank, longest_input

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Tensors = dict[str, torch.Tensor]


def random_ids(
    config: PreTrainedConfig, shape: Sequence[int], *, generator: torch.Generator, without: int | None = None
) -> torch.Tensor:
    """Random tokens of a model's vocabulary, int64.

    Args:
        without: a token that none of them is.
    """
    if without is None:
        return torch.randint(config.vocab_size, tuple(shape), generator=generator)
    ids = torch.randint(config.vocab_size - 1, tuple(shape), generator=generator)
    return ids + (ids >= without).long()


def seeded(seed: int) -> torch.Generator:
    """A generator of random numbers that are the same at every call."""
    return torch.Generator().manual_seed(seed)


def sample_ids(config: PreTrainedConfig) -> torch.Tensor:
    """The tokens that models are traced with, two sequences `[2, S]`."""
    return random_ids(config, (2, min(16, longest_input(config))), generator=seeded(0))


def sample_inputs(model: "PreTrainedModel") -> Tensors:
    """A padded batch of two sequences with both token types, as far as the model reads them."""
    ids = sample_ids(model.config)
    mask, types = torch.ones_like(ids), torch.zeros_like(ids)
    mask[1, ids.shape[1] // 2 :] = 0
    types[:, ids.shape[1] // 4 :] = 1
    return _as_read(model, ids, mask, types)


def random_inputs(model: "PreTrainedModel", *, batch: int, length: int) -> Tensors:
    """Random tokens, each sequence padded to another length, the second half of each in segment 1."""
    generator = seeded(length)
    ids = random_ids(model.config, (batch, length), generator=generator)
    lengths = torch.randint(1, length + 1, (batch,), generator=generator)
    lengths[0] = length
    mask = (torch.arange(length)[None] < lengths[:, None]).long()
    types = (torch.arange(length)[None] * 2 >= lengths[:, None]).long() * mask
    return _as_read(model, ids, mask, types)


def whole_inputs(config: PreTrainedConfig, names: Sequence[str], *, batch: int, length: int, seed: int = 0) -> Tensors:
    """Random tokens without padding, under those names that a model reads."""
    shape = (batch, length) if input_rank(config) == 2 else (batch, 1, length)
    ids = random_ids(config, shape, generator=seeded(seed))
    values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    return {name: values[name] for name in names}


def _as_read(model: "PreTrainedModel", ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> Tensors:
    """The tensors that a model reads, under their names and with its axes."""
    values = dict(zip(NAMES, (ids, mask, types), strict=True))
    return {name: with_choices(values[name], model) for name in input_names(model.config)}


def with_choices(tensor: torch.Tensor, model: "PreTrainedModel") -> torch.Tensor:
    """`[B, S]` -> what the model reads: `[B, 3, S]` with the sequences of the batch in turns, for multiple choice."""
    if len(axis_names(model)) == 2:
        return tensor
    return torch.stack([tensor, tensor.roll(1, 0), tensor.roll(2, 0)], dim=1)
