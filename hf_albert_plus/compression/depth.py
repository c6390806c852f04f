"""Layers removed from an encoder: which of them its outputs miss least, and the model without them."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch

from ..records.progress import track


def least_missed(
    model: Any, batches: Sequence[dict[str, torch.Tensor]], *, keep: int, gone: Sequence[int] = ()
) -> list[int]:
    """The layers, from 0, in the order in which they go: each time the one without which the logits change least.

    Which one goes is decided by the sum over the examples of the squared differences to the whole model's logits, among
    the layers that are still there (greedy layer pruning, Peer et al. 2022, with the outputs in place of a task's score).

    Args:
        model: a classifier.
        batches: its inputs, without labels.
        keep: how many layers stay.
        gone: those that are known to go first.
    """
    gone = list(gone)
    layers = [layer for layer in range(model.config.num_hidden_layers) if layer not in gone]
    whole = [_logits(model, batch) for batch in batches]
    looks = sum(range(keep + 1, len(layers) + 1))
    steps = iter(track(range(looks), total=looks, description="layers that are missed least"))
    while len(layers) > keep:
        missed = {}
        for layer in layers:
            next(steps)
            smaller = with_layers(model, [other for other in layers if other != layer])
            smaller.to(model.device)
            missed[layer] = sum(
                float((_logits(smaller, batch) - logits).square().sum())
                for batch, logits in zip(batches, whole, strict=True)
            )
        gone.append(min(missed, key=lambda layer: missed[layer]))
        layers.remove(gone[-1])
    return gone


@torch.no_grad()
def _logits(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    logits: torch.Tensor = model(**batch).logits.float()
    return logits[batch["attention_mask"].bool()] if logits.dim() == 3 else logits


def with_layers(model: Any, layers: Sequence[int]) -> Any:
    """The model with these of its layers alone, in this order, and the blocks that they run.

    Args:
        layers: numbers from 0.
    """
    config = deepcopy(model.config)
    config.num_hidden_layers = len(layers)
    state = model.state_dict()
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    for kind, sizes in (("attention", "block_attention_heads"), ("ffn", "block_intermediate_sizes")):
        of_layers = [getattr(model.config, f"{kind}_map")[layer] for layer in layers]
        blocks = sorted(set(of_layers))
        setattr(config, f"{kind}_sharing", [blocks.index(block) for block in of_layers])
        if getattr(config, sizes) is not None:
            setattr(config, sizes, [getattr(config, sizes)[block] for block in blocks])
        state = _renumbered(state, f"{prefix}encoder.{kind}.", blocks)
    state = _renumbered(state, f"{prefix}encoder.layers.", layers)
    smaller = type(model)(config)
    smaller.load_state_dict(state)
    return smaller.to(next(model.parameters()).dtype).eval()


def _renumbered(state: dict[str, torch.Tensor], start: str, kept_parts: Sequence[int]) -> dict[str, torch.Tensor]:
    """The tensors, those of other blocks or layers left out and those of these numbered from 0."""
    kept = {}
    for name, tensor in state.items():
        if not name.startswith(start):
            kept[name] = tensor
            continue
        number, _, rest = name.removeprefix(start).partition(".")
        if int(number) in kept_parts:
            kept[f"{start}{kept_parts.index(int(number))}.{rest}"] = tensor
    return kept
