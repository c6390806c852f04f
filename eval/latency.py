"""Latency of targets at fixed shapes: one stream, interleaved blocks, raw samples kept."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
import torch

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.environment import environment
from hf_albert_plus.eval.score import architecture_hash
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.export.engines import model_hash, physical_cores, weight_files
from hf_albert_plus.export.inputs import input_rank, longest_input
from hf_albert_plus.progress import bar

_SHAPE = re.compile(r"([1-9]\d*)x([1-9]\d*)")
BLOCKS = 12


@dataclass(frozen=True)
class Shape:
    """Sequences a batch and tokens a sequence, no padding."""

    batch: int
    length: int

    def __str__(self) -> str:
        return f"{self.batch}x{self.length}"


class Timed(Protocol):
    """What is timed: an engine, or anything that is called like one."""

    config: Any
    inputs: tuple[str, ...]

    def __call__(self, **tensors: torch.Tensor) -> Any: ...


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
                "--shapes must be a list of BATCHxLENGTH", got=repr(text), repair="use --shapes 1x16,1x128,8x128"
            )
        shapes.append(Shape(int(match[1]), int(match[2])))
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


def bench_targets(
    targets: list[Target], *, shapes: list[Shape], baseline: Target, seconds: float = 3.0, threads: int | None = None
) -> dict[str, Any]:
    """Times every target at every shape, the baseline among them.

    For each shape the targets take turns in `BLOCKS` rounds, in an order that rotates, so that a drift of the machine
    hits all alike. A block starts with one call that is not counted: it absorbs the switch from another library's
    thread pool.

    Args:
        seconds: measured time a target and shape gets, about.

    Returns:
        A JSON-ready document: a row for each target, with p50 and p95 in ms, the speedup of its p50 over the baseline's,
        and every raw sample.
    """
    if not seconds > 0:
        raise InvalidInput("--seconds must be greater than 0", got=seconds, repair="use --seconds 3")
    if baseline not in targets:
        targets = [baseline, *targets]
    engines = {target.label: target.load(threads=threads) for target in targets}
    for target in targets:
        check_shapes(shapes, engines[target.label].config, name=target.label)
    timings = time_engines(engines, shapes=shapes, baseline=baseline.label, seconds=seconds)
    return {
        "kind": "latency",
        "baseline": baseline.label,
        "shapes": [str(shape) for shape in shapes],
        "rows": [
            {
                "label": target.label,
                "name": target.name,
                "runtime": target.runtime,
                "directory": str(target.directory),
                "parameters": _parameters(target),
                "file_bytes": sum(path.stat().st_size for path in weight_files(engines[target.label].file)),
                "model_sha256": model_hash(target.directory, target.runtime),
                "architecture_sha256": architecture_hash(engines[target.label]),
                "shapes": timings[target.label],
            }
            for target in targets
        ],
        "environment": environment(threads=threads or physical_cores()),
    }


def time_engines(
    engines: Mapping[str, Timed], *, shapes: list[Shape], baseline: str, seconds: float
) -> dict[str, dict[str, Any]]:
    """Times engines in turns.

    Returns:
        Label -> shape -> what `summarise` gives.
    """
    found: dict[str, dict[str, Any]] = {label: {} for label in engines}
    for shape in shapes:
        samples = _interleaved(engines, shape, seconds=seconds)
        for label, cell in summarise(samples, baseline=baseline).items():
            found[label][str(shape)] = cell
    return found


def summarise(samples_ms: Mapping[str, list[float]], *, baseline: str) -> dict[str, dict[str, Any]]:
    """Label -> p50 and p95 in ms, the speedup of the p50 over the baseline's, every sample."""
    base = float(numpy.median(samples_ms[baseline]))
    cells = {}
    for label, values in samples_ms.items():
        median = float(numpy.median(values))
        cells[label] = {
            "p50_ms": round(median, 4),
            "p95_ms": round(float(numpy.percentile(values, 95)), 4),
            "speedup": round(base / median, 3),
            "samples_ms": [round(value, 4) for value in values],
        }
    return cells


def _interleaved(engines: Mapping[str, Timed], shape: Shape, *, seconds: float) -> dict[str, list[float]]:
    """Samples in ms of each engine at one shape."""
    inputs = {label: sample_tensors(engine.config, engine.inputs, shape) for label, engine in engines.items()}
    calls = {label: _calls_a_block(engine, inputs[label], seconds=seconds) for label, engine in engines.items()}
    samples: dict[str, list[float]] = {label: [] for label in engines}
    labels = list(engines)
    with bar(total=BLOCKS * len(labels), description=f"time {shape}") as progress:
        for block in range(BLOCKS):
            turn = block % len(labels)
            for label in labels[turn:] + labels[:turn]:
                engine, tensors = engines[label], inputs[label]
                engine(**tensors)
                for _ in range(calls[label]):
                    start = time.perf_counter()
                    engine(**tensors)
                    samples[label].append((time.perf_counter() - start) * 1e3)
                progress.update()
                progress.set_postfix_str(label)
    return samples


def _calls_a_block(engine: Timed, tensors: dict[str, torch.Tensor], *, seconds: float) -> int:
    """Warms an engine up, and from its pace finds how many calls fill its share of the time."""
    pace = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        engine(**tensors)
        pace = min(pace, time.perf_counter() - start)
    return max(2, min(400, round(seconds / BLOCKS / pace)))


def sample_tensors(config: Any, names: Sequence[str], shape: Shape) -> dict[str, torch.Tensor]:
    """Random tokens without padding, under those names that a model reads."""
    generator = torch.Generator().manual_seed(0)
    size = (shape.batch, shape.length) if input_rank(config) == 2 else (shape.batch, 1, shape.length)
    ids = torch.randint(config.vocab_size, size, generator=generator)
    values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    return {name: values[name] for name in names}


def _parameters(target: Target) -> int:
    """Parameters of the model, each shared one once, read from the weights' header."""
    from safetensors import safe_open

    from hf_albert_plus.export.engines import engine_file

    with safe_open(engine_file(target.directory, "torch"), framework="numpy") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
    return sum(int(numpy.prod(shape)) for shape in shapes)


__all__ = [
    "BLOCKS",
    "Shape",
    "Timed",
    "bench_targets",
    "check_shapes",
    "parse_shapes",
    "sample_tensors",
    "summarise",
    "time_engines",
]
