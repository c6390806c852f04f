"""How sharply the loss bends along a block's weights: the top eigenvalue of its Hessian (Q-BERT, section 3.1)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
import torch
from torch import nn

_TOLERANCE = 1e-2


def blocks_of(model: Any) -> dict[str, list[str]]:
    """Every block of the encoder as it is stored, with the paths of its linear modules."""
    prefix = f"{model.base_model_prefix}.encoder"
    found: dict[str, list[str]] = {}
    for kind in ("attention", "ffn"):
        for number, block in enumerate(getattr(model.base_model.encoder, kind)):
            path = f"{prefix}.{kind}.{number}"
            found[path] = [f"{path}.{name}" for name, part in block.named_modules() if isinstance(part, nn.Linear)]
    return found


def top_eigenvalue(
    gradients: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], *, generator: torch.Generator
) -> float:
    """The eigenvalue of largest magnitude of ∂gradients/∂weights, which is symmetric, to a hundredth.

    By Lanczos' method on the products of the Hessian with vectors that power iteration takes. A loss that is not at its minimum bends
    up in some directions and down in others, and between two eigenvalues of opposite sign and like size power iteration stays in the
    middle.

    Args:
        gradients: of a loss, with a graph of their own.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    sizes = [weight.numel() for weight in weights]

    def product(vector: numpy.ndarray) -> numpy.ndarray:
        parts = torch.from_numpy(vector.ravel()).split(sizes)
        along = [part.view_as(weight).to(weight) for part, weight in zip(parts, weights, strict=True)]
        found = torch.autograd.grad(gradients, weights, grad_outputs=along, retain_graph=True)
        return torch.cat([part.flatten() for part in found]).cpu().numpy()

    start = torch.randn(sum(sizes), generator=generator, dtype=weights[0].dtype).numpy()
    if not product(start).any():
        return 0.0
    hessian = LinearOperator((sum(sizes), sum(sizes)), matvec=product, dtype=start.dtype)
    return float(eigsh(hessian, k=1, which="LM", v0=start, tol=_TOLERANCE, return_eigenvectors=False)[0])


def curvatures(
    model: Any, batches: Iterable[Mapping[str, torch.Tensor]], blocks: Mapping[str, Sequence[str]], *, seed: int
) -> dict[str, list[float]]:
    """The top eigenvalue of every block on every batch, without dropout. A shared block's Hessian is that of all of its layers.

    Args:
        batches: inputs with labels.
        blocks: name -> paths of linear modules.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {name: [model.get_submodule(path).weight for path in paths] for name, paths in blocks.items()}
    found: dict[str, list[float]] = {name: [] for name in blocks}
    attention = model.config._attn_implementation
    model.eval()
    # Of the fused forms of attention no second derivative is known.
    model.set_attn_implementation("eager")
    try:
        for batch in batches:
            every = [weight for members in weights.values() for weight in members]
            gradients = iter(torch.autograd.grad(model(**batch).loss, every, create_graph=True))
            for name, members in weights.items():
                own = [next(gradients) for _ in members]
                found[name].append(top_eigenvalue(own, members, generator=generator))
    finally:
        model.set_attn_implementation(attention)
    return found


def sensitivity(values: Sequence[float]) -> float:
    """|mean| + standard deviation over the batches (Q-BERT, eq. 3): large where the loss is sharp, or sharp on some of the data."""
    found = torch.tensor(values, dtype=torch.float64)
    return float(found.mean().abs() + found.std(correction=0))


__all__ = ["blocks_of", "curvatures", "sensitivity", "top_eigenvalue"]
