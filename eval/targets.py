"""Targets, which are scored and timed (`DIR`, `DIR:RUNTIME` or `NAME=DIR:RUNTIME`), and the shapes of random tokens to time them with."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hf_albert_plus.engines.artefacts import RUNTIMES, directory_and_runtime
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.runtime_files import engine_file
from hf_albert_plus.errors import InvalidInput, shown
from hf_albert_plus.model_inputs import longest_input
from hf_albert_plus.random_inputs import whole_inputs
from hf_albert_plus.records.record import Parent, parent


@dataclass(frozen=True)
class Target:
    """A model directory on a runtime, under the name its rows carry."""

    name: str
    directory: Path
    runtime: str

    @property
    def label(self) -> str:
        """As in a table's first column: `student onnx int8`."""
        return f"{self.name} {RUNTIMES[self.runtime].label}"

    def load(self, *, threads: int | None = None) -> Engine:
        return Engine.load(self.directory, self.runtime, threads=threads)


def parse_target(text: str) -> Target:
    """`NAME=DIR:RUNTIME` -> a target. NAME is the directory's own name and RUNTIME torch where left out.

    Raises:
        InvalidInput: no such directory or runtime, or the directory lacks the runtime's file.
    """
    name, rest = _named(text)
    directory, named = directory_and_runtime(rest)
    runtime = named or "torch"
    engine_file(directory, runtime)
    return Target(name=name or Path(directory).resolve().name, directory=Path(directory), runtime=runtime)


def _named(text: str) -> tuple[str, str]:
    """`NAME=REST` -> NAME and REST; a path may hold = itself."""
    before, equals, after = text.partition("=")
    named = equals and "/" not in before and "\\" not in before and not Path(text).exists()
    return (before, after) if named else ("", text)


def parse_targets(texts: list[str], *, runs: bool = False) -> list[Target]:
    """Targets under labels that tell them apart.

    Args:
        runs: whether several directories under one given name are runs of one row, such as other seeds.

    Raises:
        InvalidInput: two targets with the same label.
    """
    targets = [parse_target(text) for text in texts]
    for target in targets:
        same = [(other, text) for other, text in zip(targets, texts, strict=True) if other.label == target.label]
        others = len({other.directory.resolve() for other, _ in same}) == len(same)
        if len(same) > 1 and not (runs and others and all(_named(text)[0] for _, text in same)):
            raise InvalidInput(
                "targets must have different labels",
                got=f"{target.label!r} twice",
                repair="name them: NAME=DIR:RUNTIME",
            )
    return targets


def target_parents(targets: list[Target]) -> dict[str, Parent]:
    """How a record names the directories of targets: by the names of their rows, further directories of a row numbered."""
    parents: dict[str, Parent] = {}
    for name, directory in dict.fromkeys((target.name, target.directory) for target in targets):
        number = sum(1 for other in parents if other == name or other.startswith(f"{name} run "))
        parents[f"{name} run {number + 1}" if number else name] = parent(directory)
    return parents


def labels_of(targets: list[Target]) -> list[str]:
    """What a record calls the rows of targets: the names of directories alone do not say what ran them."""
    return [target.label for target in targets]


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
    return whole_inputs(config, names, batch=shape.batch, length=shape.length)
