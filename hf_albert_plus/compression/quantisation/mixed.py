"""Which block gets how many bits: curvature on parts of the training data, and a budget for the packed file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...devices import fastest_device
from ...errors import InvalidInput
from ...kept_work import mark, taken_up
from .assignment import assign_bits
from .curvature import curvatures, sensitivity
from .fake_quantisation import FakeQuantisation
from .packing import packed_bytes, serialise
from .rounding import Grid, round_weight
from .settings import QatSettings

Blocks = Mapping[str, Sequence[str]]


def fake_quantise(model: Any, blocks: Blocks, bits: Mapping[str, int], settings: QatSettings) -> FakeQuantisation:
    """The model with blocks in their bits, and everything else in 8."""
    grids = {path: Grid(bits[name], settings.groups) for name, paths in blocks.items() for path in paths}
    return FakeQuantisation(model, weights=grids, others=Grid(groups=settings.groups), decay=settings.decay)


def refuse_impossible(model: Any, blocks: Blocks, settings: QatSettings, *, budget: int) -> None:
    """
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


def measure(
    model: Any, rows: Any, collator: Any, blocks: Blocks, settings: QatSettings, *, kept: Path
) -> dict[str, list[float]]:
    """Curvatures of the blocks on draws of the training data. Each draw is written down: a run that goes on measures the others."""
    from ...progress import bar

    size = min(settings.examples, len(rows) // settings.draws)
    if not size:
        raise InvalidInput(
            f"--draws {settings.draws} need as many examples", got=len(rows), repair=f"use --draws {len(rows)} or fewer"
        )
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(settings.seed)).tolist()
    sample = rows.remove_columns("length")
    device = fastest_device()
    found: dict[str, list[float]] = taken_up(kept, shape=dict[str, list[float]]) or {}
    done = min(len(found.get(name, ())) for name in blocks)
    found = {name: found.get(name, [])[:done] for name in blocks}
    model.to(device)
    with bar(total=settings.draws, initial=done, description="curvature of blocks") as progress:
        for draw in range(done, settings.draws):
            batch = collator([sample[index] for index in order[draw * size : (draw + 1) * size]]).to(device)
            for name, (value,) in curvatures(model, [batch], blocks, seed=settings.seed + draw).items():
                found[name].append(value)
            mark(kept, [], facts=found)
            progress.update(1)
    model.to("cpu")
    return found


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
        found = assign_bits(
            {name: sensitivity(values) for name, values in measured.items()},
            sizes=sizes,
            errors=errors,
            budget=of_blocks,
        )
        # The header tells where tensors lie: with more bits its numbers may have a digit more.
        excess = _file_bytes(model, blocks, found, settings) - budget
        if excess <= 0:
            return found
        of_blocks -= excess


def _file_bytes(model: Any, blocks: Blocks, bits: Mapping[str, int], settings: QatSettings) -> int:
    fake_quantisation = fake_quantise(model, blocks, bits, settings)
    scheme = fake_quantisation.scheme()
    fake_quantisation.remove()
    return len(serialise(model, scheme))


__all__ = ["bits_under_budget", "fake_quantise", "measure", "refuse_impossible"]
