"""The self-check of timing, which tells whether the method finds a difference among noise: a target against itself, and against
itself slowed by a tenth, while another process keeps a core busy; and what such a process costs the target, whose threads wait for
each other."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch

from hf_albert_plus.eval.latency.bench import Timed, time_engines
from hf_albert_plus.eval.latency.comparison import ComparedRow, Comparison
from hf_albert_plus.eval.latency.timing import elapsed_ms
from hf_albert_plus.eval.measured_documents import Environment
from hf_albert_plus.eval.targets import Shape, Target, check_shapes, sample_tensors
from hf_albert_plus.machine import physical_cores

SLOWDOWN = 0.1
# Turns with the other process and without it, and calls that settle each.
_TURNS, _SETTLE = 8, 3
BASELINE, ITSELF, SLOWED = "the target", "itself", "itself, 10 % slower"


class Slowed:
    """An engine whose calls take a tenth longer."""

    def __init__(self, engine: Timed):
        self.engine, self.config, self.inputs = engine, engine.config, engine.inputs

    def __call__(self, **tensors: torch.Tensor) -> Any:
        start = time.perf_counter()
        output = self.engine(**tensors)
        end = time.perf_counter()
        while time.perf_counter() - end < SLOWDOWN * (end - start):
            pass
        return output


@contextmanager
def load_from_another_process() -> Iterator[None]:
    """One core kept busy, half a second on and half a second off."""
    script = "import time\nwhile True:\n    end = time.monotonic() + 0.5\n    while time.monotonic() < end: pass\n    time.sleep(0.5)"
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def slowdown_beside_another(engine: Timed, shape: Shape, *, seconds: float) -> float:
    """How many times as long a call takes while another process takes a whole core: the median over turns with it and without it."""
    tensors = sample_tensors(engine.config, engine.inputs, shape)
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def block() -> float:
        for _ in range(_SETTLE):
            engine(**tensors)
        taken: list[float] = []
        end = time.perf_counter() + seconds / _TURNS / 2
        while not taken or time.perf_counter() < end:
            taken.append(elapsed_ms(lambda: engine(**tensors)))
        return float(numpy.median(taken))

    ratios = []
    try:
        for _ in range(_TURNS):
            process.send_signal(signal.SIGSTOP)
            alone = block()
            process.send_signal(signal.SIGCONT)
            ratios.append(block() / alone)
    finally:
        process.kill()
        process.wait()
    return float(numpy.median(ratios))


def self_check(target: Target, *, shapes: list[Shape], seconds: float = 3.0, threads: int | None = None) -> Comparison:
    """Times a target, a second engine of it, and a slowed one, in turns.

    Returns:
        A document like a bench's. Its speedups are right where they are 1.00 ± 0.03, and 1 / 1.1 = 0.91 ± 0.03 with an
        interval below 1. Beside another process that takes a core, a target on all cores should lose about its share.
    """
    threads = threads or physical_cores()
    engines: dict[str, Timed] = {
        BASELINE: target.load(threads=threads),
        ITSELF: target.load(threads=threads),
        SLOWED: Slowed(target.load(threads=threads)),
    }
    check_shapes(shapes, engines[BASELINE].config, name=target.label)
    before = Environment.here(threads=threads)
    with load_from_another_process():
        timings = time_engines(engines, shapes=shapes, baseline=BASELINE, seconds=seconds)
    beside = {str(shape): slowdown_beside_another(engines[BASELINE], shape, seconds=seconds) for shape in shapes}
    return Comparison(
        kind="self-check",
        baseline=BASELINE,
        loads=[str(shape) for shape in shapes],
        rows=[ComparedRow(label=label, loads=timings[label]) for label in engines],
        times_as_long_beside_another=beside,
        environment=before,
    )
