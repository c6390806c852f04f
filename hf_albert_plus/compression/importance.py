"""How much heads and feed-forward columns matter, from the gradients of gates on them that are all one.

B examples of a batch, S tokens, G heads or columns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn


@dataclass(frozen=True)
class Site:
    """A place where something can be removed: the heads of an attention block, or the columns of a feed-forward network.

    Attributes:
        network: of a block with several networks, the one; 0 is the first that runs.
    """

    kind: Literal["attention", "ffn"]
    block: int
    network: int = 0


def sites(encoder: Any) -> dict[Site, tuple[nn.Linear, int]]:
    """Every site with the product that reads what it makes, and the inputs of that product that one head or column fills."""
    readers: dict[Site, tuple[nn.Linear, int]] = {}
    for number, block in enumerate(encoder.attention):
        readers[Site("attention", number)] = (block.output, block.head_size)
    for number, block in enumerate(encoder.ffn):
        for network, module in enumerate((*block.stacked, block)):
            readers[Site("ffn", number, network)] = (module.output, 1)
    return readers


@dataclass
class Gates:
    """Gates that are all one, in the way of every head and column, for every example and every call.

    A shared block is called once a layer. Its importance is the sum over its calls, each taken by itself, or what one layer
    gains another would hide.

    Attributes:
        given: of every site, the gates of each of its calls since they were last read, `[B, G]`.
    """

    given: dict[Site, list[torch.Tensor]] = field(default_factory=dict)

    @contextmanager
    def on(self, encoder: Any) -> Iterator["Gates"]:
        """The gates stand while the context is open."""
        hooks = []
        for site, (product, size) in sites(encoder).items():
            self.given[site] = []

            def gate(module: nn.Module, inputs: Any, *, site: Site = site, size: int = size) -> Any:
                (hidden_BSI,) = inputs
                if not torch.is_grad_enabled():
                    return None
                ones_BG = hidden_BSI.new_ones(len(hidden_BSI), hidden_BSI.shape[-1] // size, requires_grad=True)
                self.given[site].append(ones_BG)
                return (hidden_BSI * ones_BG.repeat_interleave(size, dim=1)[:, None],)

            hooks.append(product.register_forward_pre_hook(gate))
        try:
            yield self
        finally:
            for hook in hooks:
                hook.remove()

    def take(self) -> dict[Site, torch.Tensor]:
        """The gradients of each site's calls since the last time, `[calls, B, G]`."""
        taken = {}
        for site, calls in self.given.items():
            taken[site] = torch.stack(
                [gate.grad if gate.grad is not None else torch.zeros_like(gate) for gate in calls]
            )
            calls.clear()
        return taken


def taylor(gradients: dict[Site, torch.Tensor]) -> dict[Site, torch.Tensor]:
    """Σ over examples and calls of |∂L/∂ξ|, `[G]`: the change of an example's loss, to first order, without the head (Are Sixteen
    Heads Really Better than One?, eq. 5) or the column (Importance Estimation for Neural Network Pruning, eq. 8).

    Args:
        gradients: of each example's own loss, `[calls, B, G]`.
    """
    return {site: _summed(gradient.abs()) for site, gradient in gradients.items()}


def movement(gradients: dict[Site, torch.Tensor]) -> dict[Site, torch.Tensor]:
    """−∂L/∂ξ of a step, `[G]`: how far the step takes the weights of a head or column away from zero. With ξ = 1 it is
    −Σ w·∂L/∂w over the weights that read it (Movement Pruning, eq. 3, summed as in Block Pruning, section 3).

    Args:
        gradients: of the step's loss, `[calls, B, G]`.
    """
    return {site: -_summed(gradient) for site, gradient in gradients.items()}


def _summed(gradient: torch.Tensor) -> torch.Tensor:
    """The sum over calls and examples, `[G]`, not in bf16, where increments below 1/256 of the sum would be lost."""
    return gradient.sum((0, 1), dtype=torch.promote_types(gradient.dtype, torch.float32))
