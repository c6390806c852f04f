"""Fixed shapes: sequences a batch and tokens a sequence, and the random tokens that fill them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hf_albert_plus.errors import InvalidInput, shown
from hf_albert_plus.export.inputs import input_rank, longest_input

_SHAPE = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")
# Tokens of a batch: what a machine has memory for.
_LARGEST = 1 << 20


@dataclass(frozen=True)
class Shape:
    """Sequences a batch and tokens a sequence, no padding."""

    batch: int
    length: int

    def __str__(self) -> str:
        return f"{self.batch}x{self.length}"


def parse_shapes(text: str) -> list[Shape]:
    """`"1x16,8x128"` -> shapes.

    Raises:
        InvalidInput: another form.
    """
    shapes = []
    for part in text.split(","):
        match = _SHAPE.fullmatch(part.strip())
        if match is None:
            raise InvalidInput(
                "--shapes must be a list of BATCHxLENGTH", got=shown(text), repair="use --shapes 1x16,1x128,8x128"
            )
        shape = Shape(int(match[1]), int(match[2]))
        if shape.batch * shape.length > _LARGEST:
            raise InvalidInput(
                f"--shapes must have at most {_LARGEST:,} tokens a batch", got=shape, repair="use --shapes 1x16,1x128,8x128"
            )  # fmt: skip
        shapes.append(shape)
    return shapes


def check_shapes(shapes: list[Shape], config: Any, *, name: str) -> None:
    """Refuses shapes longer than a model's positions."""
    longest, positions = max(shape.length for shape in shapes), longest_input(config)
    if longest > positions:
        raise InvalidInput(
            f"--shapes must fit the {positions} positions of {name}",
            got=longest,
            repair=f"use lengths up to {positions}",
        )


def sample_tensors(config: Any, names: Sequence[str], shape: Shape) -> dict[str, torch.Tensor]:
    """Random tokens without padding, under those names that a model reads."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.batch, shape.length) if input_rank(config) == 2 else (shape.batch, 1, shape.length)
    ids = torch.randint(config.vocab_size, size, generator=generator)
    values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    return {name: values[name] for name in names}


__all__ = ["Shape", "check_shapes", "parse_shapes", "sample_tensors"]
