"""Timings that were not measured, for what reads them."""

from hf_albert_plus.eval.measured_documents import Cell, WarmedUp


def cell_of(ms, baseline_ms=80.0):
    """A cell of three rounds, of which the second was twice as slow for all."""
    rounds = [[ms], [2 * ms], [ms]]
    return Cell(
        p50_ms=ms, p90_ms=ms, p95_ms=ms, p99_ms=ms, max_ms=2 * ms, samples=3, outliers=0, items_per_s=1e3 / ms, speedup=baseline_ms / ms,
        speedup_interval=[baseline_ms / ms] * 2, warm_up=WarmedUp(calls=2, stable=True), rounds=rounds,
    )  # fmt: skip
