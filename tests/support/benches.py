"""Benches that measure as little as they can: what a bench writes is tested with them, not how well it measures.

`test_timing` has the method itself, on a clock of its own, and `test_bench_modes` the processes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from hf_albert_plus.eval.latency import bench
from hf_albert_plus.eval.latency.costs import ProcessCosts, measure_process
from hf_albert_plus.eval.latency.timing import Method, timed_by
from hf_albert_plus.eval.targets import Target

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
