"""A model in as many bits as its scheme gives it, on disk: levels packed without gaps, scales and zeros of their groups."""

import json
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from typing_extensions import TypedDict

from ...errors import InvalidInput
from ...records.files import check_shape, write_bytes
from ..settings import BITS
from .rounding import Grid, row_groups, weight_levels
from .scheme import Scheme

PACKED = "packed/model.safetensors"
_PARTS = ("levels", "scale", "zero")
_AGAIN = "train it again: albert-plus qat"


class _Fact(TypedDict):
    """How a weight is packed."""

    bits: int
    groups: int | None
    columns: int


def unsigned_levels(weight_OI: torch.Tensor, grid: Grid) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Levels as whole numbers from 0 `[O, I]`, uint8, with the scale `[O]`, fp32, and the zero `[O]`, uint8, of each row."""
    level_OI, steps = weight_levels(weight_OI.detach(), grid)
    zero_O1 = steps.zero_O1 + (128 if grid.bits == 8 else 0)
    level_OI, zero_O1 = (level_OI + zero_O1).to(torch.uint8), zero_O1.to(torch.uint8)
    return level_OI.numpy(), steps.scale_O1[:, 0].numpy(), zero_O1[:, 0].numpy()


def pack(level_OI: numpy.ndarray, bits: int) -> numpy.ndarray:
    """Levels of every row one after another, the lowest bit first: `[O, ⌈I·bits/8⌉]`, uint8."""
    bit_OIb = (level_OI[..., None] >> numpy.arange(bits, dtype=numpy.uint8)) & 1
    return numpy.packbits(bit_OIb.reshape(len(level_OI), -1), axis=1, bitorder="little")


def unpack(packed: numpy.ndarray, bits: int, columns: int) -> numpy.ndarray:
    """What `pack` packed, `[O, I]`, uint8."""
    bit_OIb = numpy.unpackbits(packed, axis=1, count=columns * bits, bitorder="little").reshape(-1, columns, bits)
    return (bit_OIb << numpy.arange(bits, dtype=numpy.uint8)).sum(axis=-1, dtype=numpy.uint8)


def packed_bytes(weight_OI: torch.Tensor, grid: Grid) -> int:
    """What a weight takes packed, with its scales and zeros."""
    rows, columns = weight_OI.shape
    groups = int(row_groups(rows, grid.groups)[-1]) + 1
    return rows * -(-columns * grid.bits // 8) + 5 * groups


def serialise(model: Any, scheme: Scheme) -> bytes:
    """The file of a model with its weights packed; biases and norms stay in fp32."""
    grids = {f"{module}.weight": grid for module, grid in {**scheme.weights, **scheme.tables}.items()}
    tensors, facts = {}, {}
    for name, tensor in model.state_dict().items():
        if name not in grids:
            tensors[name] = tensor.contiguous()
            continue
        grid, (rows, columns) = grids[name], tensor.shape
        level_OI, scale_O, zero_O = unsigned_levels(tensor, grid)
        first_G = numpy.unique(row_groups(rows, grid.groups).numpy(), return_index=True)[1]
        for part, values in (
            ("levels", pack(level_OI, grid.bits)),
            ("scale", scale_O[first_G]),
            ("zero", zero_O[first_G]),
        ):
            tensors[f"{name}.{part}"] = torch.from_numpy(values)
        facts[name] = {"bits": grid.bits, "groups": grid.groups, "columns": columns}
    # One entry alone: safetensors writes several in an order that differs from process to process.
    return save(tensors, metadata={"packed": json.dumps(facts)})


def write_packed(model: Any, scheme: Scheme, path: Path) -> None:
    """Writes that file."""
    write_bytes(path, serialise(model, scheme))


def read_packed(path: Path) -> dict[str, torch.Tensor]:
    """The state dict of a packed model in fp32: every weight the value that its levels stand for.

    Raises:
        InvalidInput: no file of a packed model, or tensors of other shapes than its facts say.
    """
    try:
        with safe_open(path, framework="pt") as stored:
            text = (stored.metadata() or {}).get("packed", "null")
            facts = check_shape(
                text, dict[str, _Fact], what="the facts of a packed model", source=str(path), repair=_AGAIN
            )
            parts = tuple(f"{name}.{part}" for name in facts for part in _PARTS)
            state = {name: stored.get_tensor(name) for name in stored.keys() if name not in parts}  # noqa: SIM118
            for name, fact in facts.items():
                tensors = [stored.get_tensor(f"{name}.{part}") for part in _PARTS]
                state[name] = _values(tensors, fact, name=f"{name} in {path}")
    except (OSError, SafetensorError) as error:
        raise InvalidInput(
            "a packed model must be a file of safetensors", got=f"{path} ({error})", repair=_AGAIN
        ) from None
    return state


def _values(tensors: list[torch.Tensor], fact: "_Fact", *, name: str) -> torch.Tensor:
    packed, scale_G, zero_G = tensors
    bits, columns, rows = fact["bits"], fact["columns"], len(packed)
    groups = min(rows, fact["groups"] or rows)
    wanted = [(rows, -(-columns * bits // 8)), (groups,), (groups,)]
    dtypes = [torch.uint8, torch.float32, torch.uint8]
    if [tuple(t.shape) for t in tensors] != wanted or [t.dtype for t in tensors] != dtypes or bits not in BITS:
        raise InvalidInput(
            "levels, scales and zeros must have the shapes of their facts",
            got=f"{[tuple(t.shape) for t in tensors]} for {fact} of {name}",
            repair=_AGAIN,
        )
    level_OI = torch.from_numpy(unpack(packed.numpy(), bits, columns)).float()
    group_O = row_groups(rows, fact["groups"])
    return (level_OI - zero_G.float()[group_O][:, None]) * scale_G[group_O][:, None]
