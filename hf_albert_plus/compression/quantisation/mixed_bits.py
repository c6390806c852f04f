"""Which block gets how many bits: the curvature of the loss decides, under a budget of bytes for the packed file."""

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

from torch import nn

from ...errors import InvalidInput
from ..settings import QatSettings
from .curvature import Blocks, sensitivity
from .fake_quantisation import FakeQuantisation
from .packed_weights import packed_bytes, serialise
from .rounding import Grid, round_weight


def fake_quantise(model: Any, blocks: Blocks, bits: Mapping[str, int], settings: QatSettings) -> FakeQuantisation:
    """The model with blocks in their bits, and everything else in 8."""
    grids = {path: Grid(bits[name], settings.groups) for name, paths in blocks.items() for path in paths}
    others = Grid(groups=settings.groups)
    return FakeQuantisation(model, weights=grids, others=others, decay=settings.decay, ranges=settings.ranges)


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


def blocks_of(model: Any) -> dict[str, list[str]]:
    """Every block of the encoder as it is stored, with the paths of its linear modules."""
    prefix = f"{model.base_model_prefix}.encoder"
    modules: dict[str, list[str]] = {}
    for kind in ("attention", "ffn"):
        for number, block in enumerate(getattr(model.base_model.encoder, kind)):
            path = f"{prefix}.{kind}.{number}"
            modules[path] = [f"{path}.{name}" for name, part in block.named_modules() if isinstance(part, nn.Linear)]
    return modules
