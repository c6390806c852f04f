"""How sharply the loss bends along each block's weights: the top eigenvalue of the block's Hessian on parts of the training data
(Q-BERT, section 3.1)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from ...errors import InvalidInput
from ...machine import fastest_device
from ...records.progress import bar
from ...records.stage import mark, taken_up
from ..settings import QatSettings

# Name of a block -> paths of its linear modules.
Blocks = Mapping[str, Sequence[str]]
Batches = Sequence[Mapping[str, torch.Tensor]]
_TOLERANCE = 1e-2


def measure_curvatures(
    model: Any, rows: Any, collator: Any, blocks: Blocks, settings: QatSettings, *, kept: Path
) -> dict[str, list[float]]:
    """Curvatures of the blocks on draws of the training data. Each draw is written down: a run that goes on measures the others."""
    draws = draw_rows(len(rows), settings)
    sample = rows.remove_columns("length")
    device = fastest_device()
    before: dict[str, list[float]] = taken_up(kept, shape=dict[str, list[float]]) or {}
    done = min(len(before.get(name, ())) for name in blocks)
    measured = {name: before.get(name, [])[:done] for name in blocks}
    model.to(device)
    with bar(total=settings.draws, initial=done, description="curvature of blocks") as progress:
        for number in range(done, settings.draws):
            batches = [collator([sample[index] for index in numbers]).to(device) for numbers in draws[number]]
            for name, (value,) in curvatures(model, [batches], blocks, seed=settings.seed + number).items():
                measured[name].append(value)
            mark(kept, [], facts=measured)
            progress.update(1)
    model.to("cpu")
    return measured


def draw_rows(count: int, settings: QatSettings) -> list[list[list[int]]]:
    """The numbers of the rows of each draw, in batches; no row is in two draws.

    Args:
        count: rows that there are.

    Raises:
        InvalidInput: fewer rows than draws.
    """
    if settings.share is None:
        size, repair = min(settings.examples, count // settings.draws), f"use --draws {count} or fewer"
    else:
        size, repair = int(settings.share * count) // settings.draws, "use a larger --share, or fewer --draws"
    if not size:
        raise InvalidInput(f"--draws {settings.draws} need as many examples", got=count, repair=repair)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(settings.seed)).tolist()
    draws = [order[start : start + size] for start in range(0, settings.draws * size, size)]
    return [[draw[start : start + settings.examples] for start in range(0, size, settings.examples)] for draw in draws]


def curvatures(model: Any, draws: Iterable[Batches], blocks: Blocks, *, seed: int) -> dict[str, list[float]]:
    """The top eigenvalue of every block on every draw, without dropout. A shared block's Hessian is that of all of its layers.

    Args:
        draws: batches of inputs with labels, each; the loss is the mean over all their rows.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {name: [model.get_submodule(path).weight for path in paths] for name, paths in blocks.items()}
    eigenvalues: dict[str, list[float]] = {name: [] for name in blocks}
    attention = model.config._attn_implementation
    model.eval()
    # The fused forms of attention have no second derivative.
    model.set_attn_implementation("eager")
    try:
        for batches in draws:
            for name, members in weights.items():
                product = hessian_product(model, batches, members)
                eigenvalues[name].append(top_eigenvalue(product, members, generator=generator))
    finally:
        model.set_attn_implementation(attention)
    return eigenvalues


Product = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]


def hessian_product(model: Any, batches: Batches, weights: Sequence[torch.Tensor]) -> Product:
    """The product of the Hessian of the mean loss with a vector, which has the shapes of the weights.

    The graph of one batch is kept for all products. Of several, each is made again for every product: memory is that of one batch,
    however large the draw is.
    """

    def gradients_of(batch: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(model(**batch).loss, weights, create_graph=True)

    counts = [len(batch["input_ids"]) for batch in batches]
    kept = gradients_of(batches[0]) if len(batches) == 1 else None

    def product(vector: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        sums = [torch.zeros_like(weight) for weight in weights]
        for batch, count in zip(batches, counts, strict=True):
            gradients = gradients_of(batch) if kept is None else kept
            parts = torch.autograd.grad(gradients, weights, grad_outputs=vector, retain_graph=kept is not None)
            for total, part in zip(sums, parts, strict=True):
                total += count / sum(counts) * part
        return sums

    return product


def top_eigenvalue(product: Product, weights: Sequence[torch.Tensor], *, generator: torch.Generator) -> float:
    """The eigenvalue of largest magnitude of a symmetric matrix that is known by its products, to a hundredth.

    By Lanczos' method on the products of the Hessian with vectors that power iteration takes. A loss that is not at its minimum bends
    up in some directions and down in others, and between two eigenvalues of opposite sign and like size power iteration stays in the
    middle.

    Args:
        weights: with the shapes that vectors have.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    sizes = [weight.numel() for weight in weights]

    def of_numbers(vector: numpy.ndarray) -> numpy.ndarray:
        parts = torch.from_numpy(vector.ravel()).split(sizes)
        along = [part.view_as(weight).to(weight) for part, weight in zip(parts, weights, strict=True)]
        return torch.cat([part.flatten() for part in product(along)]).cpu().numpy()

    start = torch.randn(sum(sizes), generator=generator, dtype=weights[0].dtype).numpy()
    if not of_numbers(start).any():
        return 0.0
    hessian = LinearOperator((sum(sizes), sum(sizes)), matvec=of_numbers, dtype=start.dtype)
    return float(eigsh(hessian, k=1, which="LM", v0=start, tol=_TOLERANCE, return_eigenvectors=False)[0])


def sensitivity(values: Sequence[float]) -> float:
    """|mean| + standard deviation over the draws (Q-BERT, eq. 3): large where the loss is sharp, or sharp on some of the data."""
    curvature = torch.tensor(values, dtype=torch.float64)
    return float(curvature.mean().abs() + curvature.std(correction=0))
