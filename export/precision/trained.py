"""Graphs of a model that was trained for few bits (`albert-plus qat`), on the grids of its scheme: levels and ranges are those of the
training, so that what was trained is what runs."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hf_albert_plus.compression.quantisation.rounding import activation_scale
from hf_albert_plus.compression.quantisation.scheme import Scheme
from hf_albert_plus.engines.artefacts import TrainedForm
from hf_albert_plus.export.precision.products import QuantisedGraph
from hf_albert_plus.export.precision.rounded_products import Rounding, Step, kernel_bits, write_rounded


@dataclass(frozen=True)
class TrainedGraph(QuantisedGraph):
    """A graph on the grids of its scheme.

    Attributes:
        products_of_bits: quantised products by their bits.
    """

    ranges: str
    products_of_bits: dict[str, int]


@dataclass(frozen=True)
class PackedGraph(TrainedGraph):
    """One whose weights are packed.

    Attributes:
        kernel_bits: the bits that onnxruntime multiplies in, by the scheme's.
    """

    kernel_bits: dict[str, int]


def write_trained(
    source: Path, target: Path, *, scheme: Scheme, form: TrainedForm, keep_fp32: Collection[str] = ()
) -> TrainedGraph:
    """Writes an fp32 graph as its scheme has it (`write_rounded`).

    Raises:
        InvalidInput: a form that the scheme's bits do not run in.
        QuantisationError: a weight product that is not to be kept stayed in fp32; the target is removed.
    """
    if form != "nbits":
        scheme.check_int8()
    counts = write_rounded(source, target, rounding_of(scheme), form=form, keep_fp32=keep_fp32)
    bits = [scheme.grid_of(name).bits for name in scheme.products if name not in counts.kept_fp32]
    graph: dict[str, Any] = {
        **vars(counts),
        "ranges": "as trained",
        "products_of_bits": {str(width): bits.count(width) for width in sorted(set(bits))},
    }
    if form == "nbits":
        return PackedGraph(**graph, kernel_bits={str(width): kernel_bits(width) for width in sorted(set(bits))})
    return TrainedGraph(**graph)


def rounding_of(scheme: Scheme) -> Rounding:
    """What a scheme rounds: levels of inputs lie around 128."""
    scales = {name: activation_scale(torch.tensor(amax, dtype=torch.float32)) for name, amax in scheme.ranges.items()}
    return Rounding(
        steps={name: Step(scale.item(), 128) for name, scale in scales.items()},
        weights={name: scheme.grid_of(name) for name in scheme.products},
        table=lambda table: scheme.tables.get((table.name or "").removesuffix(".weight")),
    )
