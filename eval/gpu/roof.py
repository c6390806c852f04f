"""The roof: the product of two large matrices in each precision, which every share is a share of."""

from functools import partial

import numpy
import torch

from hf_albert_plus.eval.gpu.gpu_rows import Attempts, Bench, GpuRow
from hf_albert_plus.eval.latency.timing import summarise, time_calls

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.int8}


def measure_roof(bench: Bench) -> list[GpuRow]:
    """A row for each precision, with 1e9 operations a second of its fastest round. fp32 is as torch multiplies it by default."""
    size, attempts = bench.sizes.roof_size, Attempts()
    load, operations = f"{size}x{size}", 2 * size**3
    calls = attempts.first_calls({precision: _product(bench, precision) for precision in _TYPES}, load)
    baseline = next(iter(calls))
    timings = time_calls(
        calls, baseline=baseline, seconds=bench.sizes.seconds, description="the roof", stopwatch=bench.device.time
    )
    cells = summarise(timings, baseline=baseline)
    rows = []
    for precision, cell in cells.items():
        # The best round's median: noise only ever slows.
        best_ms = min(float(numpy.median(block)) for block in cell.rounds)
        facts = {"precision": precision, "gops_per_s": round(operations / best_ms / 1e6, 1)}
        rows.append(GpuRow(label=f"product {precision}", load=load, unit="products", cell=cell, facts=facts))
    return rows + attempts.rows


def _product(bench: Bench, precision: str) -> partial[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    size, device = bench.sizes.roof_size, bench.device.kind
    if precision == "int8":
        whole = [torch.randint(-9, 9, (size, size), dtype=torch.int8, generator=generator) for _ in range(2)]
        # cuBLAS multiplies 8 bits where the right matrix lies by columns.
        return partial(torch._int_mm, whole[0].to(device), whole[1].to(device).t())
    one, other = (torch.randn(size, size, generator=generator).to(device, _TYPES[precision]) for _ in range(2))
    return partial(torch.mm, one, other)
