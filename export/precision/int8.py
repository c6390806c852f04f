"""int8 with ranges that are known: weights by row, inputs of products by the ranges that examples showed. For onnxruntime's CPU in its own
operators, with embedding tables by row; for TensorRT and OpenVINO in standard ones, symmetric with zeros of 0, as TensorRT requires."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx_ir

from hf_albert_plus.compression.quantisation.rounding import Grid
from hf_albert_plus.export.precision.input_ranges import Range
from hf_albert_plus.export.precision.products import QuantisedGraph
from hf_albert_plus.export.precision.rounded_products import Rounding, Step, write_rounded


@dataclass(frozen=True)
class CalibratedGraph(QuantisedGraph):
    """A graph in int8 with what was done to channels that reach far beyond the others.

    Attributes:
        divided_products: products whose input is divided by channel.
        products_with_fp32_channels: those of whose input a few channels are multiplied in fp32.
    """

    divided_products: int
    products_with_fp32_channels: int


def quantise(
    source: Path,
    target: Path,
    *,
    ranges: Mapping[str, Range],
    form: Literal["int8", "qdq"] = "int8",
    keep_fp32: Collection[str] = (),
    passes: Collection[str] | None = None,
) -> CalibratedGraph:
    """Quantises the weight products and embedding tables of an fp32 graph.

    Args:
        source: an fp32 graph from `export_graph`.
        ranges: of the inputs of its products, as `find_ranges` gives them.
        form: onnxruntime's own operators, or standard ones with embedding tables in fp32.
        keep_fp32: names of products to leave as they are.
        passes: names of the graph passes to run first, by default those that are on for the form.

    Raises:
        QuantisationError: another weight product stayed in fp32; the target is removed.
    """
    steps = {
        name: Step(range_.scale, range_.zero, range_.outliers)
        if form == "int8"
        else Step(range_.symmetric_scale, 128, range_.outliers)
        for name, range_ in ranges.items()
    }
    rounding = Rounding(
        steps=steps, weights=dict.fromkeys(ranges, Grid()), table=_grid_of_table if form == "int8" else lambda _: None
    )
    counts = write_rounded(source, target, rounding, form=form, keep_fp32=keep_fp32, passes=passes)
    outliers = [range_.outliers for name, range_ in ranges.items() if name not in counts.kept_fp32]
    return CalibratedGraph(
        **vars(counts),
        divided_products=sum(each.divisor_I is not None for each in outliers),
        products_with_fp32_channels=sum(each.channels_K is not None for each in outliers),
    )


def _grid_of_table(table: onnx_ir.Value) -> Grid | None:
    """8 bits a row for every stored matrix of floats."""
    stored = table.const_value
    is_matrix = stored is not None and len(stored.shape) == 2 and stored.dtype.is_floating_point()
    return Grid() if is_matrix else None
