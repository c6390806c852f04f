"""Relaxed sharing's differences: what each layer of an encoder computes with in all, and differences of a rank that come nearest to it
(Bae et al. 2024, arXiv 2410.20672)."""

from typing import Any, Literal

import torch

Kind = Literal["attention", "ffn"]


def states_of_layers(encoder: Any, kind: Kind) -> list[dict[str, torch.Tensor]]:
    """Of every layer the tensors of a block that would compute without differences what the layer does."""
    blocks = getattr(encoder, kind)
    states = []
    for layer, block in zip(encoder.layers, getattr(encoder, f"{kind}_map"), strict=True):
        state = dict(blocks[block].state_dict())
        for name, part in (getattr(layer, f"own_{kind}") or {}).items():
            if name == "layer_norm":
                state |= {f"{name}.{leaf}": tensor for leaf, tensor in part.state_dict().items()}
            else:
                state[f"{name}.weight"] = state[f"{name}.weight"] + part.up.weight @ part.down.weight
                state[f"{name}.bias"] = part.up.bias
        states.append(state)
    return states


def bring_near(encoder: Any, kind: Kind, layer: int, wanted: dict[str, torch.Tensor]) -> None:
    """Gives a layer the norm and the biases of a block's state, and differences by truncated SVD that bring the products it
    shares as near to that block's as their rank allows (Eckart and Young)."""
    own = getattr(encoder.layers[layer], f"own_{kind}")
    block = getattr(encoder, kind)[getattr(encoder, f"{kind}_map")[layer]]
    for name, part in own.items():
        if name == "layer_norm":
            part.load_state_dict({leaf: wanted[f"{name}.{leaf}"] for leaf in part.state_dict()})
            continue
        left, sizes, right = torch.linalg.svd(
            wanted[f"{name}.weight"] - getattr(block, name).weight, full_matrices=False
        )
        rank, roots = min(part.down.out_features, len(sizes)), sizes.sqrt()
        part.up.weight.zero_()[:, :rank] = left[:, :rank] * roots[:rank]
        part.down.weight.zero_()[:rank] = roots[:rank, None] * right[:rank]
        part.up.bias.copy_(wanted[f"{name}.bias"])
