"""A classifier in torch whose batches shrink: rows that may leave do, the others go on."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers.masking_utils import create_bidirectional_mask

from ...errors import InvalidInput
from .criteria import Criterion, Watch


@dataclass(frozen=True)
class Exited:
    """What came out, in the caller's order.

    Attributes:
        logits_BC: of the exit that each row took.
        layers_B: how many layers each row ran.
    """

    logits_BC: torch.Tensor
    layers_B: torch.Tensor


@torch.no_grad()
def run_with_exits(model: Any, criterion: Criterion, **inputs: torch.Tensor) -> Exited:
    """Runs a batch `[B, S]` through a classifier with exits. Layers compute the rows that are left and nothing else.

    Raises:
        InvalidInput: a model without exits, or a criterion that its task has no numbers for.
    """
    config = model.config
    if not config.exit_layers:
        raise InvalidInput(
            "a model must have exits to leave by",
            got="none",
            repair="train some: albert-plus distill --method fastbert --student DIR …",
        )
    criterion.check(classes=config.num_labels)
    encoder, watch = model.albert_plus.encoder, Watch(criterion)
    ids_BS = inputs["input_ids"]
    mask_BS = inputs.get("attention_mask", torch.ones_like(ids_BS))
    hidden_BSH = model.albert_plus.embeddings(ids_BS, inputs.get("token_type_ids"), None, None)
    rows_B = torch.arange(len(ids_BS), device=ids_BS.device)
    logits_BC = hidden_BSH.new_empty(len(ids_BS), config.num_labels)
    layers_B = torch.full_like(rows_B, config.num_hidden_layers)
    exits = {layer: number for number, layer in enumerate(config.exit_layers)}
    mask: Any = create_bidirectional_mask(config=config, inputs_embeds=hidden_BSH, attention_mask=mask_BS)
    maps = zip(encoder.layers, encoder.attention_map, encoder.ffn_map, strict=True)
    for depth, (layer, a, f) in enumerate(maps, start=1):
        hidden_BSH = layer(hidden_BSH, mask, attention=encoder.attention[a], ffn=encoder.ffn[f])
        if depth not in exits:
            continue
        said_BC = model.exit(exits[depth], hidden_BSH, mask_BS)
        leaves_B = watch.may_leave(said_BC)
        if not leaves_B.any():
            continue
        logits_BC[rows_B[leaves_B]], layers_B[rows_B[leaves_B]] = said_BC[leaves_B], depth
        stays_B = ~leaves_B
        rows_B, hidden_BSH, mask_BS = rows_B[stays_B], hidden_BSH[stays_B], mask_BS[stays_B]
        watch.keep(stays_B)
        if not len(rows_B):
            return Exited(logits_BC, layers_B)
        mask = create_bidirectional_mask(config=config, inputs_embeds=hidden_BSH, attention_mask=mask_BS)
    logits_BC[rows_B] = model.exit(len(exits), hidden_BSH)
    return Exited(logits_BC, layers_B)


__all__ = ["Exited", "run_with_exits"]
