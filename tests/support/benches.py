"""Benches that measure as little as they can: what a bench writes is tested with them, not how well it measures.

`test_timing` has the method itself, on a clock of its own, and `test_bench_modes` the processes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from hf_albert_plus.eval.latency import bench
from hf_albert_plus.eval.latency.costs import ProcessCosts, measure_process
from hf_albert_plus.eval.latency.timing import Method, timed_by
from hf_albert_plus.eval.load.traffic import Client
from hf_albert_plus.eval.measured_documents import Cell, Latency, LoadedEnvironment, TimedRow, WarmedUp
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.machine import environment
from hf_albert_plus.search import paces
from hf_albert_plus.search.shapes import Work

SHORT = Method(rounds=4, patience=0, settle_s=0.0)
_MEASURED: dict[str, ProcessCosts] = {}


def measure_once(target: Target, **options: Any) -> ProcessCosts:
    """Measures one process for each runtime, and gives its costs to every target of that runtime."""
    if target.runtime not in _MEASURED:
        _MEASURED[target.runtime] = measure_process(target, **options)
    return _MEASURED[target.runtime]


@contextmanager
def shortened_benches() -> Iterator[None]:
    """Few rounds, no patience, no settling, and one process a runtime, inside of this context."""
    with timed_by(SHORT), pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "measure_process", measure_once)
        yield


@contextmanager
def planted_paces() -> Iterator[None]:
    """In the place of a search's clock a machine without noise: a text takes what its encoder has of layers, heads and columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paces, "time_single_stream", _planted)
        patch.setattr(paces, "time_offline", _planted)
        yield


def _planted(clients: dict[str, Client], *, baseline: str, **options: Any) -> dict[str, Any]:
    ms = {label: _planted_ms(client) for label, client in clients.items()}
    return {
        label: SimpleNamespace(items_per_s=1e3 / taken, p50_ms=taken, speedup=ms[baseline] / taken)
        for label, taken in ms.items()
    }


def _planted_ms(client: Client) -> float:
    config: Any = client.engine.config
    layers = config.num_hidden_layers
    work = (
        Work.of(config)
        if config.model_type == "albert_plus"
        else Work(layers, layers * config.num_attention_heads, layers * config.intermediate_size)
    )
    in_int8 = 0.02 + 0.05 * work.layers + 0.02 * work.heads + 0.001 * work.columns
    return 4 * in_int8 if client.target.runtime == "torch" else in_int8


def latency_of(targets: list[Target]) -> Latency:
    """A document of a bench in which all took a millisecond."""
    cell = Cell(
        p50_ms=1.0, p90_ms=1.0, p95_ms=1.0, p99_ms=1.0, max_ms=1.0, samples=2, outliers=0, items_per_s=1000.0, speedup=1.0,
        speedup_interval=[1.0, 1.0], warm_up=WarmedUp(calls=2, stable=True), rounds=[[1.0, 1.0]],
    )  # fmt: skip
    rows = [
        TimedRow(label=target.label, name=target.name, runtime=target.runtime, directory=str(target.directory), model_sha256=str(number), architecture_sha256="", loads={"1x8": cell})
        for number, target in enumerate(targets)
    ]  # fmt: skip
    here = LoadedEnvironment(**environment(threads=1), load_average_after=0.0)
    return Latency(baseline=rows[0].label, loads=["1x8"], ceilings={}, rows=rows, environment=here)
