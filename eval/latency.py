"""Latency of targets under loads (fixed shapes, or traffic of real sentences), and what each costs."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.arithmetic import Arithmetic, measure_ceilings
from hf_albert_plus.eval.environment import FORMAT, environment
from hf_albert_plus.eval.loading import measure_process
from hf_albert_plus.eval.score import architecture_hash
from hf_albert_plus.eval.settings import BenchSettings
from hf_albert_plus.eval.shapes import Shape, check_shapes, sample_tensors
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.eval.timing import summarise, time_calls
from hf_albert_plus.eval.traffic import (
    SCENARIOS,
    Client,
    Scenario,
    Traffic,
    time_offline,
    time_server,
    time_single_stream,
)
from hf_albert_plus.export.engines import model_hash, physical_cores, weight_files
from hf_albert_plus.export.runtimes import RUNTIMES
from hf_albert_plus.finetune import fits_positions
from hf_albert_plus.glue import data_parent
from hf_albert_plus.progress import track
from hf_albert_plus.variants import published_training_speedup


class Timed(Protocol):
    """What is timed: an engine, or anything that is called like one."""

    config: Any
    inputs: tuple[str, ...]

    def __call__(self, **tensors: torch.Tensor) -> Any: ...


def bench_targets(
    targets: list[Target],
    *,
    shapes: list[Shape],
    baseline: Target,
    traffic: Traffic | None = None,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
    rates: tuple[float, ...] = (),
    seconds: float = 3.0,
    threads: int | None = None,
) -> dict[str, Any]:
    """Times every target under every load, the baseline among them.

    Args:
        shapes: batches of random tokens without padding, one stream; not of targets with exits, which random tokens leave where they
            please.
        traffic: real sentences, in each of `scenarios`.
        rates: sentences a second of the server scenario; half the baseline's own pace by default.
        seconds: measured time a target and load gets at least, about.

    Returns:
        A JSON-ready document: a row for each target with its sizes, and for each load percentiles in ms, throughput, the
        speedup over the baseline with its interval, the share of the attainable arithmetic, and every raw sample.
    """
    BenchSettings(seconds=seconds, rate=rates, max_length=128 if traffic is None else traffic.max_length)
    if not shapes and traffic is None:
        raise InvalidInput("a bench needs a load", got="neither shapes nor data", repair="use --shapes 1x16,8x128")
    targets = targets if baseline in targets else [baseline, *targets]
    leaving = [target for target in targets if RUNTIMES[target.runtime].leaves_early]
    rule = "a graph with exits is timed on real sentences: random tokens leave where they please"
    if leaving and traffic is None:
        raise InvalidInput(rule, got=f"{leaving[0].label} without --data", repair="add --data nyu-mll/glue --task NAME")
    if shapes and baseline in leaving:
        raise InvalidInput(
            rule,
            got=f"{baseline.label} as the baseline of --shapes",
            repair="use another --baseline, or leave out --shapes",
        )
    threads = threads or physical_cores()
    engines = {target.label: target.load(threads=threads) for target in targets}
    arithmetic = {target.label: Arithmetic(engines[target.label].config) for target in targets}
    for target in targets:
        if shapes:
            check_shapes(shapes, engines[target.label].config, name=target.label)
        if traffic is not None:
            fits_positions(engines[target.label].config, traffic.max_length)
    # The data is read before anything is timed.
    clients = (
        {} if traffic is None else {target.label: Client(target, engines[target.label], traffic) for target in targets}
    )
    before = environment(threads=threads)
    with tempfile.TemporaryDirectory() as folder:
        ceilings = measure_ceilings(Path(folder), threads=threads)
    fixed = [target for target in targets if not RUNTIMES[target.runtime].leaves_early]
    cells: dict[str, dict[str, Any]] = {target.label: {} for target in targets}
    cells |= time_engines(
        {target.label: engines[target.label] for target in fixed},
        shapes=shapes,
        baseline=baseline.label,
        seconds=seconds,
    )
    for target in fixed:
        for shape in shapes:
            flops = arithmetic[target.label].flops(shape)
            cells[target.label][str(shape)] |= _achieved(cells[target.label][str(shape)], flops, target, ceilings)
    if traffic is not None:
        timed = _traffic(clients, traffic, scenarios, rates, baseline=baseline.label, seconds=seconds, threads=threads)
        for load, by_label in timed.items():
            for label, cell in by_label.items():
                cells[label][load] = cell
    own = _processes(targets, shapes or [Shape(1, 16)], threads=threads)
    return {
        "kind": "latency",
        "format": FORMAT,
        "baseline": baseline.label,
        "loads": list(cells[baseline.label]),
        "ceilings": ceilings,
        "rows": [
            {
                "label": target.label,
                "name": target.name,
                "runtime": target.runtime,
                "directory": str(target.directory),
                "parameters": arithmetic[target.label].parameters,
                "effective_parameters": arithmetic[target.label].effective_parameters,
                "published_training_speedup": published_training_speedup(engines[target.label].config),
                "file_bytes": sum(path.stat().st_size for path in weight_files(engines[target.label].file)),
                **own[target.label],
                "model_sha256": model_hash(target.directory, target.runtime),
                "architecture_sha256": architecture_hash(engines[target.label]),
                "loads": cells[target.label],
            }
            for target in targets
        ],
        "traffic": None
        if traffic is None
        else {"task": traffic.task.name, "data": data_parent(traffic.data, traffic.task)},
        "environment": {**before, "load_average_after": environment()["load_average"]},
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
        calls = {
            label: partial(engine, **sample_tensors(engine.config, engine.inputs, shape))
            for label, engine in engines.items()
        }
        timings = time_calls(calls, baseline=baseline, seconds=seconds, description=f"time {shape}")
        for label, cell in summarise(timings, baseline=baseline, items=shape.batch).items():
            found[label][str(shape)] = cell
    return found


def _achieved(cell: dict[str, Any], flops: int, target: Target, ceilings: dict[str, Any]) -> dict[str, Any]:
    """Operations of the model as it is defined, those a second at the median, and their share of the ceiling."""
    rate = flops / cell["p50_ms"] / 1e6
    ceiling = ceilings.get(RUNTIMES[target.runtime].precision)
    return {
        "flops": flops,
        "gops_per_s": round(rate, 1),
        "attained": None if ceiling is None else round(rate / ceiling["gops_per_s"], 4),
    }


def _traffic(
    clients: dict[str, Client],
    traffic: Traffic,
    scenarios: tuple[Scenario, ...],
    rates: tuple[float, ...],
    *,
    baseline: str,
    seconds: float,
    threads: int,
) -> dict[str, dict[str, Any]]:
    """Load -> label -> cell."""
    found: dict[str, dict[str, Any]] = {}
    what = traffic.task.name
    needs_pace = "server" in scenarios and not rates
    if "single-stream" in scenarios or needs_pace:
        name = f"{what} single stream"
        cells = time_single_stream(clients, baseline=baseline, seconds=seconds, name=name)
        if "single-stream" in scenarios:
            found[name] = cells
        if needs_pace:
            rates = (float(f"{cells[baseline]['items_per_s'] / 2:.2g}"),)
    if "offline" in scenarios:
        name = f"{what} offline"
        found[name] = time_offline(clients, baseline=baseline, seconds=seconds, name=name, threads=threads)
    if "server" in scenarios:
        for rate in rates:
            name = f"{what} server {rate:g}/s"
            found[name] = time_server(clients, baseline=baseline, seconds=seconds, rate=rate, name=name)
    return found


def _processes(targets: list[Target], shapes: list[Shape], *, threads: int) -> dict[str, dict[str, Any]]:
    """Label -> load time and memory, each in a process of its own."""
    measured = track(targets, total=len(targets), description="load")
    return {target.label: measure_process(target, shapes=shapes, threads=threads) for target in measured}


__all__ = ["Timed", "bench_targets", "time_engines"]
