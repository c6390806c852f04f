"""Latency of targets under loads (fixed shapes, or traffic of real sentences), and what each costs."""

import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from hf_albert_plus.engines.artefacts import RUNTIMES
from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET
from hf_albert_plus.engines.runtime_files import model_hash, weight_files
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency.costs import Arithmetic, ProcessCosts, measure_ceilings, measure_process
from hf_albert_plus.eval.latency.timing import summarise, time_calls
from hf_albert_plus.eval.load.traffic import (
    SCENARIOS,
    Client,
    Scenario,
    Traffic,
    time_offline,
    time_server,
    time_single_stream,
)
from hf_albert_plus.eval.measured_documents import (
    Ceiling,
    Cell,
    Latency,
    LoadedEnvironment,
    TimedRow,
    TrafficSource,
    to_json,
)
from hf_albert_plus.eval.scored_rows import architecture_hash
from hf_albert_plus.eval.settings import BenchSettings
from hf_albert_plus.eval.targets import (
    Shape,
    Target,
    check_shapes,
    labels_of,
    parse_shapes,
    sample_tensors,
    target_parents,
)
from hf_albert_plus.machine import FORMAT, environment, physical_cores
from hf_albert_plus.records.files import write_json
from hf_albert_plus.records.progress import track
from hf_albert_plus.records.record import Record
from hf_albert_plus.records.stage import run_stage
from hf_albert_plus.tasks.rows import fits_positions
from hf_albert_plus.tasks.splits import data_parent
from hf_albert_plus.variants import published_training_speedup

LATENCY = "latency.json"


class Timed(Protocol):
    """What is timed: an engine, or anything that is called like one."""

    config: Any
    inputs: tuple[str, ...]

    def __call__(self, **tensors: torch.Tensor) -> Any: ...


def bench(
    targets: list[Target],
    *,
    output: Path,
    shapes: str | None = None,
    baseline: Target,
    traffic: Traffic | None = None,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
    settings: BenchSettings | None = None,
    threads: int | None = None,
) -> Record:
    """The bench stage: writes `latency.json` and a record of it, or finds them written.

    Args:
        shapes: as `1x16,8x128`.
        scenarios: of the traffic.
    """
    settings = settings or BenchSettings()
    targets = _with_baseline(targets, baseline)

    def work(directory: Path) -> dict[str, Any]:
        latency = bench_targets(
            targets,
            shapes=parse_shapes(shapes) if shapes else [],
            baseline=baseline,
            traffic=traffic,
            scenarios=scenarios,
            settings=settings,
            threads=threads,
        )
        write_json(directory / LATENCY, to_json(latency))
        return {row.label: {load: cell.p50_ms for load, cell in row.loads.items()} for row in latency.rows}

    facts: dict[str, Any] = {"shapes": shapes, "seconds": settings.seconds, "threads": threads, "format": FORMAT}
    facts |= {"targets": labels_of(targets), "baseline": baseline.label}
    parents = target_parents(targets)
    if traffic is not None:
        facts |= {
            "task": traffic.task.name,
            "max_length": traffic.max_length,
            **({} if traffic.task.long.is_cut else {"long": asdict(traffic.task.long)}),
            **({} if traffic.at_most is None else {"rows": traffic.at_most}),
            "scenarios": scenarios,
            "rate": settings.rate,
        }
        parents["data"] = data_parent(traffic.data, traffic.task)
    return run_stage("bench", output, settings=facts, parents=parents, work=work)


def bench_targets(
    targets: list[Target],
    *,
    shapes: list[Shape],
    baseline: Target,
    traffic: Traffic | None = None,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
    settings: BenchSettings | None = None,
    threads: int | None = None,
) -> Latency:
    """Times every target under every load, the baseline among them.

    Args:
        shapes: batches of random tokens without padding, one stream; not of targets with exits, which random tokens leave where they
            please.
        traffic: real sentences, in each of `scenarios`.

    Returns:
        A row for each target with its sizes, and for each load percentiles in ms, throughput, the speedup over the baseline with
        its interval, the share of the attainable arithmetic, and every raw sample.
    """
    settings = settings or BenchSettings()
    targets = _with_baseline(targets, baseline)
    _check_loads(targets, baseline, shapes=shapes, traffic=traffic)
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
    cells: dict[str, dict[str, Cell]] = {target.label: {} for target in targets}
    cells |= time_engines(
        {target.label: engines[target.label] for target in fixed},
        shapes=shapes,
        baseline=baseline.label,
        seconds=settings.seconds,
    )
    for target in fixed:
        for shape in shapes:
            flops = arithmetic[target.label].flops(shape)
            cells[target.label][str(shape)] = _with_arithmetic(cells[target.label][str(shape)], flops, target, ceilings)
    if traffic is not None:
        timed = _time_traffic(clients, traffic, scenarios, baseline=baseline.label, settings=settings, threads=threads)
        for load, by_label in timed.items():
            for label, cell in by_label.items():
                cells[label][load] = cell
    costs = _measure_processes(targets, shapes or [_largest_batch(clients)], threads=threads)
    return Latency(
        baseline=baseline.label,
        loads=list(cells[baseline.label]),
        ceilings=ceilings,
        rows=[
            TimedRow(
                label=target.label,
                name=target.name,
                runtime=target.runtime,
                directory=str(target.directory),
                parameters=arithmetic[target.label].parameters,
                effective_parameters=arithmetic[target.label].effective_parameters,
                sequence_flops=arithmetic[target.label].sequence_flops,
                published_training_speedup=published_training_speedup(engines[target.label].config),
                file_bytes=sum(path.stat().st_size for path in weight_files(engines[target.label].file)),
                **vars(costs[target.label]),
                model_sha256=model_hash(target.directory, target.runtime),
                architecture_sha256=architecture_hash(engines[target.label].config),
                loads=cells[target.label],
                windows=clients[target.label].windows if clients else None,
            )
            for target in targets
        ],
        traffic=None
        if traffic is None
        else TrafficSource(task=traffic.task.name, data=data_parent(traffic.data, traffic.task)),
        environment=LoadedEnvironment(**before, load_average_after=environment()["load_average"]),
    )


def _with_baseline(targets: list[Target], baseline: Target) -> list[Target]:
    """The targets, the baseline among them."""
    return targets if baseline in targets else [baseline, *targets]


def _check_loads(targets: list[Target], baseline: Target, *, shapes: list[Shape], traffic: Traffic | None) -> None:
    """Refuses a bench without a load, and graphs with exits on random tokens."""
    if not shapes and traffic is None:
        raise InvalidInput("a bench needs a load", got="neither shapes nor data", repair="use --shapes 1x16,8x128")
    if traffic is not None:
        BenchSettings(max_length=traffic.max_length)
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


def _largest_batch(clients: Mapping[str, Client]) -> Shape:
    """The shape of the batch that takes most memory in whole passes of the traffic: its longest texts, as many as the token budget has room for."""
    longest = max((length for client in clients.values() for length in client.lengths), default=16)
    return Shape(max(1, TOKEN_BUDGET // longest), longest)


def time_engines(
    engines: Mapping[str, Timed], *, shapes: list[Shape], baseline: str, seconds: float
) -> dict[str, dict[str, Cell]]:
    """Times engines in turns.

    Returns:
        Label -> shape -> its timings.
    """
    cells: dict[str, dict[str, Cell]] = {label: {} for label in engines}
    for shape in shapes:
        calls = {
            label: partial(engine, **sample_tensors(engine.config, engine.inputs, shape))
            for label, engine in engines.items()
        }
        timings = time_calls(calls, baseline=baseline, seconds=seconds, description=f"time {shape}")
        for label, cell in summarise(timings, baseline=baseline, items=shape.batch).items():
            cells[label][str(shape)] = cell
    return cells


def _with_arithmetic(cell: Cell, flops: int, target: Target, ceilings: dict[str, Ceiling]) -> Cell:
    """A cell with the operations of the model as it is defined, those a second at the median, and their share of the ceiling."""
    rate = flops / cell.p50_ms / 1e6
    ceiling = ceilings.get(RUNTIMES[target.runtime].precision)
    attained = None if ceiling is None else round(rate / ceiling.gops_per_s, 4)
    return replace(cell, flops=flops, gops_per_s=round(rate, 1), attained=attained)


def _time_traffic(
    clients: dict[str, Client],
    traffic: Traffic,
    scenarios: tuple[Scenario, ...],
    *,
    baseline: str,
    settings: BenchSettings,
    threads: int,
) -> dict[str, dict[str, Cell]]:
    """Load -> label -> cell."""
    loads: dict[str, dict[str, Cell]] = {}
    what, seconds, rates = traffic.task.name, settings.seconds, settings.rate
    needs_pace = "server" in scenarios and not rates
    if "single-stream" in scenarios or needs_pace:
        name = f"{what} single stream"
        cells = time_single_stream(clients, baseline=baseline, seconds=seconds, name=name)
        if "single-stream" in scenarios:
            loads[name] = cells
        if needs_pace:
            rates = (float(f"{cells[baseline].items_per_s / 2:.2g}"),)
    if "offline" in scenarios:
        name = f"{what} offline"
        loads[name] = time_offline(clients, baseline=baseline, seconds=seconds, name=name, threads=threads)
    if "server" in scenarios:
        for rate in rates:
            name = f"{what} server {rate:g}/s"
            loads[name] = time_server(clients, baseline=baseline, seconds=seconds, rate=rate, name=name)
    return loads


def _measure_processes(targets: list[Target], shapes: list[Shape], *, threads: int) -> dict[str, ProcessCosts]:
    """Label -> load time and memory, each in a process of its own."""
    measured = track(targets, total=len(targets), description="load")
    return {target.label: measure_process(target, shapes=shapes, threads=threads) for target in measured}
