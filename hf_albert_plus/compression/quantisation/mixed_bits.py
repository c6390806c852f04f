"""Which block gets how many bits: the curvature of the loss decides, under a budget of bytes for the packed file.

Curvature says how sharply the loss bends along a block's weights. It is the top eigenvalue of the block's Hessian on parts of
the training data (Q-BERT, section 3.1).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import nn

from ...errors import InvalidInput
from ...machine import fastest_device
from ...records.progress import bar
from ...records.stage import mark, taken_up
from ..settings import QatSettings
from .fake_quantisation import FakeQuantisation
from .packed_weights import packed_bytes, serialise
from .rounding import Grid, round_weight

Blocks = Mapping[str, Sequence[str]]


def fake_quantise(model: Any, blocks: Blocks, bits: Mapping[str, int], settings: QatSettings) -> FakeQuantisation:
    """The model with blocks in their bits, and everything else in 8."""
    grids = {path: Grid(bits[name], settings.groups) for name, paths in blocks.items() for path in paths}
    return FakeQuantisation(model, weights=grids, others=Grid(groups=settings.groups), decay=settings.decay)


def refuse_impossible(model: Any, blocks: Blocks, settings: QatSettings, *, budget: int) -> None:
    """Refuses a budget that no choice of bits can keep.

    Raises:
        InvalidInput: a budget that the file exceeds even with the fewest bits.
    """
    least = _file_bytes(model, blocks, dict.fromkeys(blocks, min(settings.bits)), settings)
    if least > budget:
        raise InvalidInput(
            f"--budget must hold the packed model with {min(settings.bits)} bits in every block, {least / 1e6:.4f} MB",
            got=f"{budget / 1e6:g}",
            repair=f"use --budget {least / 1e6 + 5e-5:.4f} or more",
        )


def measure_curvatures(
    model: Any, rows: Any, collator: Any, blocks: Blocks, settings: QatSettings, *, kept: Path
) -> dict[str, list[float]]:
    """Curvatures of the blocks on draws of the training data. Each draw is written down: a run that goes on measures the others."""
    size = min(settings.examples, len(rows) // settings.draws)
    if not size:
        raise InvalidInput(
            f"--draws {settings.draws} need as many examples", got=len(rows), repair=f"use --draws {len(rows)} or fewer"
        )
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(settings.seed)).tolist()
    sample = rows.remove_columns("length")
    device = fastest_device()
    before: dict[str, list[float]] = taken_up(kept, shape=dict[str, list[float]]) or {}
    done = min(len(before.get(name, ())) for name in blocks)
    measured = {name: before.get(name, [])[:done] for name in blocks}
    model.to(device)
    with bar(total=settings.draws, initial=done, description="curvature of blocks") as progress:
        for draw in range(done, settings.draws):
            batch = collator([sample[index] for index in order[draw * size : (draw + 1) * size]]).to(device)
            for name, (value,) in curvatures(model, [batch], blocks, seed=settings.seed + draw).items():
                measured[name].append(value)
            mark(kept, [], facts=measured)
            progress.update(1)
    model.to("cpu")
    return measured


def bits_under_budget(
    model: Any, blocks: Blocks, measured: Mapping[str, Sequence[float]], settings: QatSettings, *, budget: int
) -> dict[str, int]:
    """The bits of every block, with which the packed file, its header included, is within the budget."""
    weights = {name: [model.get_submodule(path).weight.detach() for path in paths] for name, paths in blocks.items()}
    choices = {bits: Grid(bits, settings.groups) for bits in settings.bits}
    sizes = {
        name: {bits: sum(packed_bytes(weight, grid) for weight in members) for bits, grid in choices.items()}
        for name, members in weights.items()
    }
    errors = {
        name: {
            bits: sum(float((round_weight(weight, grid) - weight).square().sum()) for weight in members)
            for bits, grid in choices.items()
        }
        for name, members in weights.items()
    }
    fewest = dict.fromkeys(blocks, min(settings.bits))
    of_blocks = (
        budget - _file_bytes(model, blocks, fewest, settings) + sum(sizes[name][fewest[name]] for name in blocks)
    )
    while True:
        assigned = assign_bits(
            {name: sensitivity(values) for name, values in measured.items()},
            sizes=sizes,
            errors=errors,
            budget=of_blocks,
        )
        # The header tells where tensors lie: with more bits its numbers may have a digit more.
        excess = _file_bytes(model, blocks, assigned, settings) - budget
        if excess <= 0:
            return assigned
        of_blocks -= excess


def _file_bytes(model: Any, blocks: Blocks, bits: Mapping[str, int], settings: QatSettings) -> int:
    fake_quantisation = fake_quantise(model, blocks, bits, settings)
    scheme = fake_quantisation.scheme()
    fake_quantisation.remove()
    return len(serialise(model, scheme))


def assign_bits(
    sensitivities: Mapping[str, float],
    *,
    sizes: Mapping[str, Mapping[int, int]],
    errors: Mapping[str, Mapping[int, float]],
    budget: int,
) -> dict[str, int]:
    """The bits with the least Σ sensitivity · error that fit, where no block has fewer than a less sensitive one (Q-BERT, section 3.1,
    with the squared error of HAWQ-V2, eq. 9, to choose among what that rule leaves).

    Args:
        sizes: block -> bits -> bytes.
        errors: block -> bits -> squared distance of its weights from their grid.
        budget: bytes of all blocks together.

    Raises:
        InvalidInput: even the fewest bits do not fit.
    """
    ranked = sorted(sensitivities, key=lambda block: sensitivities[block], reverse=True)
    choices: Sequence[int] = sorted(next(iter(sizes.values())), reverse=True)
    best: tuple[float, tuple[int, ...]] | None = None
    for bits in combinations_with_replacement(choices, len(ranked)):
        chosen = list(zip(ranked, bits, strict=True))
        if sum(sizes[block][b] for block, b in chosen) > budget:
            continue
        loss = sum(sensitivities[block] * errors[block][b] for block, b in chosen)
        if best is None or loss < best[0]:
            best = loss, bits
    if best is None:
        least = sum(min(choices.values()) for choices in sizes.values())
        raise InvalidInput(
            "--budget must hold the blocks at their fewest bits",
            got=f"{budget / 1e6:.3f} MB for blocks that take {least / 1e6:.3f} MB",
            repair=f"add {(least - budget) / 1e6:.3f} MB to it",
        )
    return dict(zip(ranked, best[1], strict=True))


_TOLERANCE = 1e-2


def blocks_of(model: Any) -> dict[str, list[str]]:
    """Every block of the encoder as it is stored, with the paths of its linear modules."""
    prefix = f"{model.base_model_prefix}.encoder"
    modules: dict[str, list[str]] = {}
    for kind in ("attention", "ffn"):
        for number, block in enumerate(getattr(model.base_model.encoder, kind)):
            path = f"{prefix}.{kind}.{number}"
            modules[path] = [f"{path}.{name}" for name, part in block.named_modules() if isinstance(part, nn.Linear)]
    return modules


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
        products = torch.autograd.grad(gradients, weights, grad_outputs=along, retain_graph=True)
        return torch.cat([part.flatten() for part in products]).cpu().numpy()

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
    eigenvalues: dict[str, list[float]] = {name: [] for name in blocks}
    attention = model.config._attn_implementation
    model.eval()
    # The fused forms of attention have no second derivative.
    model.set_attn_implementation("eager")
    try:
        for batch in batches:
            every = [weight for members in weights.values() for weight in members]
            gradients = iter(torch.autograd.grad(model(**batch).loss, every, create_graph=True))
            for name, members in weights.items():
                own = [next(gradients) for _ in members]
                eigenvalues[name].append(top_eigenvalue(own, members, generator=generator))
    finally:
        model.set_attn_implementation(attention)
    return eigenvalues


def sensitivity(values: Sequence[float]) -> float:
    """|mean| + standard deviation over the batches (Q-BERT, eq. 3): large where the loss is sharp, or sharp on some of the data."""
    curvature = torch.tensor(values, dtype=torch.float64)
    return float(curvature.mean().abs() + curvature.std(correction=0))
