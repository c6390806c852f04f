"""The verbs that time: targets against a baseline, the field's own ways, graph passes, a GPU, and the method itself."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hf_albert_plus.eval.settings import BenchSettings

from ..errors import InvalidInput
from . import options as o
from .console import gives_json, notes, print_rows, start
from .settings_options import Fields, with_settings
from .task_options import MaybeScored, OnTask

if TYPE_CHECKING:
    from hf_albert_plus.eval.latency.comparison import Comparison
    from hf_albert_plus.eval.load.traffic import Traffic
    from hf_albert_plus.eval.measured_documents import Cell, Latency
    from hf_albert_plus.eval.targets import Target

_DEFAULT_SHAPES = "1x16,1x128,8x128"
_Shapes = Annotated[str, typer.Option(help="Shapes to time, BATCHxLENGTH.")]
_Model = Annotated[
    str, typer.Argument(metavar="DIR|VARIANT", help="A model directory, or a variant with random weights.")
]
_Seconds = Annotated[BenchSettings, Fields(only=("seconds",))]


class ScenarioChoice(str, Enum):
    """How traffic comes."""

    single_stream = "single-stream"
    offline = "offline"
    server = "server"


@with_settings
def bench(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="TARGET...", help="DIR (torch) or DIR:RUNTIME, as DIR:onnx-int8; NAME=… names its row."),
    ],
    settings: BenchSettings,
    on: MaybeScored,
    baseline: Annotated[str | None, typer.Option(help="The target whose speed counts as 1.00x.")] = None,
    shapes: Annotated[
        str | None, typer.Option(help=f"Shapes to time, BATCHxLENGTH. Default: {_DEFAULT_SHAPES}, without --data.")
    ] = None,
    scenario: Annotated[
        list[ScenarioChoice] | None, typer.Option(help="How traffic comes; repeat for several. Default: all three.")
    ] = None,
    out: o.RecordOut = None,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Time targets at fixed shapes, or with --data under the traffic of a task's real sentences, in turns, against a baseline."""
    from hf_albert_plus.eval.targets import parse_shapes

    chosen = _DEFAULT_SHAPES if shapes is None else shapes
    parse_shapes(chosen)
    start(threads)
    from hf_albert_plus.eval.latency.bench import LATENCY, bench_targets
    from hf_albert_plus.eval.latency.bench import bench as stage
    from hf_albert_plus.eval.measured_documents import read_latency

    traffic = _traffic(on, settings)
    parsed, base = _with_baseline(targets, baseline)
    options: dict[str, Any] = {
        "shapes": None if traffic and shapes is None else chosen,
        "baseline": base,
        "traffic": traffic,
        "scenarios": tuple(choice.value for choice in scenario or ScenarioChoice),
        "settings": settings,
        "threads": threads,
    }
    if out is None:
        options["shapes"] = parse_shapes(options["shapes"]) if options["shapes"] else []
        latency = bench_targets(parsed, **options)
    else:
        stage(parsed, output=out, **options)
        latency = read_latency(out / LATENCY)
    _give(latency, json_file)


@with_settings
def peers(
    model: _Model, settings: _Seconds, shapes: _Shapes = _DEFAULT_SHAPES, threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:  # fmt: skip
    """Build and time the field's own ways to run a model, beside ours."""
    from hf_albert_plus.eval.targets import parse_shapes

    parsed = parse_shapes(shapes)
    start(threads)
    from hf_albert_plus.eval.latency.peers import bench_peers

    comparison = bench_peers(model, shapes=parsed, seconds=settings.seconds, threads=threads)
    _give(comparison, json_file)


@with_settings
def passes(
    model: _Model, settings: _Seconds, shapes: _Shapes = _DEFAULT_SHAPES, threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:  # fmt: skip
    """Time a model's graphs with and without each graph pass."""
    from hf_albert_plus.eval.targets import parse_shapes

    parsed = parse_shapes(shapes)
    start(threads)
    from hf_albert_plus.eval.latency.pass_gains import bench_passes

    comparison = bench_passes(model, shapes=parsed, seconds=settings.seconds, threads=threads)
    _give(comparison, json_file)


@with_settings
def self_check(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="DIR (torch) or DIR:RUNTIME, as DIR:onnx-int8.")],
    settings: _Seconds,
    shapes: _Shapes = _DEFAULT_SHAPES,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Time a target against itself, and against itself slowed by 10 %, while a core is busy elsewhere."""
    from hf_albert_plus.eval.targets import parse_shapes, parse_target

    parsed = parse_shapes(shapes)
    start(threads)
    from hf_albert_plus.eval.latency.self_check import self_check as check

    comparison = check(parse_target(target), shapes=parsed, seconds=settings.seconds, threads=threads)
    _give(comparison, json_file)
    for shape, ratio in (comparison.times_as_long_beside_another or {}).items():
        notes.print(f"{shape}: {ratio:.2f} times as long beside a process that takes a core", markup=False)


@with_settings
def cuda(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A model directory, its ONNX graphs too.")],
    settings: _Seconds,
    shapes: _Shapes = _DEFAULT_SHAPES,
    json_file: o.JsonFile = None,
) -> None:
    """Time a model directory in all its ways on an NVIDIA GPU."""
    from hf_albert_plus.eval.targets import parse_shapes, parse_target

    parsed = parse_shapes(shapes)
    start(None)
    from hf_albert_plus.eval.latency.cuda import bench_cuda

    comparison = bench_cuda(parse_target(directory), shapes=parsed, seconds=settings.seconds)
    _give(comparison, json_file)


def _traffic(on: OnTask | None, settings: BenchSettings) -> "Traffic | None":
    if on is None:
        if settings.rows is not None:
            raise InvalidInput(
                "--rows goes with --data",
                got=f"--rows {settings.rows} alone",
                repair="add --data nyu-mll/glue --task NAME",
            )
        return None
    from hf_albert_plus.eval.load.traffic import Traffic

    return Traffic(data=on.data, task=on.task, max_length=settings.max_length, at_most=settings.rows)


def _with_baseline(targets: list[str], baseline: str | None) -> "tuple[list[Target], Target]":
    from hf_albert_plus.eval.targets import parse_target, parse_targets

    if baseline is None:
        raise InvalidInput(
            "a speedup needs a baseline", got="no --baseline", repair="add --baseline DIR, say of the teacher"
        )
    base = parse_target(baseline)
    is_target = base in [parse_target(text) for text in targets]
    return parse_targets([*targets, *([] if is_target else [baseline])]), base


def _give(document: "Latency | Comparison", file: Path | None) -> None:
    if not gives_json(document, file):
        _print(document)


_TIMING = ("p50 ms", "p99 ms", "/s", "speedup", "95 %")


def _print(document: "Latency | Comparison") -> None:
    columns = _columns(document.rows)
    rows = []
    for row in document.rows:
        cells = [row.label, *(write(row) for write in columns.values())]
        for load in document.loads:
            cells += _timing(row.loads[load]) if load in row.loads else [""] * len(_TIMING)
        rows.append(cells)
    print_rows(["model", *columns, *(f"{load}\n{column}" for load in document.loads for column in _TIMING)], rows)
    for label, reason in (getattr(document, "not_built", None) or {}).items():
        notes.print(f"not built: {label} ({reason})", markup=False)
    for row in document.rows:
        for load, cell in row.loads.items():
            if cell.fell_behind:
                notes.print(f"{row.label} fell behind at {load}: {cell.items_per_s:.0f}/s", markup=False)


def _timing(cell: "Cell") -> list[str]:
    low, high = cell.speedup_interval
    return [f"{cell.p50_ms:.2f}", f"{cell.p99_ms:.2f}", f"{cell.items_per_s:.0f}", f"{cell.speedup:.2f}x", f"{low:.2f}-{high:.2f}"]  # fmt: skip


def _columns(rows: Any) -> dict[str, Any]:
    """The columns before the timings that the rows have figures for."""
    writers = {
        "parameters": ("parameters", lambda row: f"{row.parameters:,}"),
        "file MB": ("file_bytes", lambda row: "" if row.file_bytes is None else f"{row.file_bytes / 1e6:.1f}"),
        "int8 products": (
            "weight_products",
            lambda row: f"{row.quantised_products} of {row.weight_products}" if row.weight_products else "",
        ),
        "cosine": ("cosine", lambda row: f"{row.cosine:.4f}"),
        "windows a text": ("windows", lambda row: str(row.windows)),
        "load ms": ("load_ms", lambda row: f"{row.load_ms:.0f}"),
        "load MB": ("load_mb", lambda row: f"{row.load_mb:.1f}"),
        "peak MB": ("peak_rss_mb", lambda row: f"{row.peak_rss_mb:.0f}"),
        "passes": ("passes", lambda row: ", ".join(f"{name} {count}" for name, count in row.passes.items()) or "none"),
    }
    known = {title for title, (field, _) in writers.items() if rows and all(hasattr(row, field) for row in rows)}
    if any(getattr(row, "windows", None) is None for row in rows):
        known.discard("windows a text")
    return {title: write for title, (_, write) in writers.items() if title in known}
