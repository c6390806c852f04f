"""The search for the products that have to stay in fp32 so that an int8 graph holds its score: as few as can be found."""

from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import torch

from hf_albert_plus.engines.parity import onnx_runner
from hf_albert_plus.export.precision.input_ranges import Range
from hf_albert_plus.export.precision.int8 import quantise
from hf_albert_plus.export.precision.products import count_products
from hf_albert_plus.records.progress import track

Kept = tuple[str, ...]


def fewest_in_fp32(ranked: list[str], holds: Callable[[Kept], bool]) -> Kept | None:
    """Finds a smallest set of products that, kept in fp32, make a condition hold.

    The most sensitive ones are added in doubling numbers, then as many as possible taken out again, the least sensitive
    first: no product of the result can go back to int8 alone.

    Args:
        ranked: products, the most sensitive first.
        holds: whether the condition holds with these in fp32; asked at most once for each set.

    Returns:
        None if it does not hold with all of them in fp32.
    """
    asked: dict[frozenset[str], bool] = {}

    def ask(kept: Kept) -> bool:
        key = frozenset(kept)
        if key not in asked:
            asked[key] = holds(kept)
        return asked[key]

    if ask(()):
        return ()
    count = 1
    while not ask(tuple(ranked[:count])):
        if count >= len(ranked):
            return None
        count = min(2 * count, len(ranked))
    low, high = count // 2, count  # low fails, high holds
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if ask(tuple(ranked[:middle])) else (middle, high)
    kept = list(ranked[:high])
    removed = True
    while removed:
        removed = False
        for name in list(reversed(kept)):
            fewer = tuple(other for other in kept if other != name)
            if ask(fewer):
                kept, removed = list(fewer), True
    return tuple(kept)


def rank_by_sensitivity(source: Path, batch: dict[str, torch.Tensor], ranges: Mapping[str, Range]) -> list[str]:
    """The weight products of an fp32 graph, those first whose quantisation alone moves the outputs most.

    Args:
        batch: real examples; the mean squared difference over their outputs is the measure.
        ranges: of the inputs of products.
    """
    names = count_products(onnx.load(source).graph).fp32
    expected = onnx_runner(source)(batch)
    moved: dict[str, float] = {}
    trial = source.with_suffix(".trial.onnx")
    try:
        for name in track(names, total=len(names), description="sensitivity of each product"):
            quantise(source, trial, ranges=ranges, keep_fp32=[other for other in names if other != name])
            outputs = onnx_runner(trial)(batch)
            moved[name] = sum(float((outputs[key] - value).square().mean()) for key, value in expected.items())
    finally:
        trial.unlink(missing_ok=True)
    return sorted(names, key=lambda name: moved[name], reverse=True)
