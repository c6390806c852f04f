"""How far two models are apart, measured."""

from typing import Any

import torch
from transformers import PreTrainedModel

from ..glue import reads_token_types

# The one output that transformers' heads of the same kind name differently.
_RENAMED = {"seq_relationship_logits": "sop_logits"}
# Outputs with an entry a token, beside those of three dimensions.
_OF_TOKENS = ("start_logits", "end_logits")


def random_batch(model: PreTrainedModel, *, choices: bool = False) -> dict[str, torch.Tensor]:
    """Rows of random tokens and, where the model reads them, token types, `[4, S]`, or `[4, 3, S]` with choices. One
    row is padded on the right, with the padding token where there is one, since RoBERTa counts positions by it."""
    config = model.config
    generator = torch.Generator().manual_seed(0)
    length = min(24, max(config.max_position_embeddings // 2, 1))
    ids = torch.randint(config.vocab_size - 1, (4, length), generator=generator)
    padding = config.pad_token_id or 0
    ids += (ids >= padding).long()
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


__all__ = ["max_difference", "random_batch"]
