"""Models without what is not kept: smaller weights under a smaller config, not zeros."""

from copy import deepcopy
from typing import Any

import torch

from .importance import Site, sites


def without(model: Any, kept: dict[Site, torch.Tensor]) -> Any:
    """The model with the heads and columns that `kept` names, of the sites that it names; all others stay.

    It computes what `model` computes with the outputs of the removed ones at zero.
    """
    encoder = model.base_model.encoder
    whole = {site: torch.arange(product.in_features // size) for site, (product, size) in sites(encoder).items()}
    kept = {**whole, **{site: places.cpu() for site, places in kept.items()}}
    config = deepcopy(model.config)
    heads = [len(kept[Site("attention", block)]) for block in range(len(encoder.attention))]
    columns = [len(kept[Site("ffn", block)]) for block in range(len(encoder.ffn))]
    config.block_attention_heads = None if set(heads) == {config.num_attention_heads} else heads
    config.block_intermediate_sizes = None if len(set(columns)) == 1 else columns
    if len(set(columns)) == 1:
        config.intermediate_size = columns[0]
    smaller = type(model)(config)
    state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    for site, (_, size) in sites(encoder).items():
        places = (kept[site][:, None] * size + torch.arange(size)).flatten()
        made, read = _names(site, networks=model.config.num_feedforward_networks)
        for name in made:
            for part in ("weight", "bias"):
                state[f"{prefix}{name}.{part}"] = state[f"{prefix}{name}.{part}"][places]
        state[f"{prefix}{read}.weight"] = state[f"{prefix}{read}.weight"][:, places]
    smaller.load_state_dict(state)
    return smaller.to(next(model.parameters()).dtype).eval()


def _names(site: Site, *, networks: int) -> tuple[list[str], str]:
    """The products whose rows make a site's heads or columns, and the one whose columns read them."""
    if site.kind == "attention":
        block = f"encoder.attention.{site.block}"
        return [f"{block}.{name}" for name in ("query", "key", "value")], f"{block}.output"
    block = f"encoder.ffn.{site.block}"
    if site.network < networks - 1:
        block = f"{block}.stacked.{site.network}"
    return [f"{block}.intermediate"], f"{block}.output"


__all__ = ["without"]
