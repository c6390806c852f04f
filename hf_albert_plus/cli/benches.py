"""The verb that times: targets against a baseline, the field's own ways, graph passes, a GPU, and its own method."""

from enum import Enum
from typing import Annotated, Any

import typer

from ..errors import InvalidInput
from . import options as o
from .console import notes, print_rows
from .stages import start

_SHAPES = "1x16,1x128,8x128"


class DeviceChoice(str, Enum):
    """Where to time."""

    cpu = "cpu"
    cuda = "cuda"


class ScenarioChoice(str, Enum):
    """How traffic comes."""

    single_stream = "single-stream"
    offline = "offline"
    server = "server"


def bench(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...", help="DIR (torch) or DIR:RUNTIME, as DIR:onnx-int8; NAME=… names its row."
        ),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="The target whose speed counts as 1.00x.")] = None,
    shapes: Annotated[
        str | None, typer.Option(help=f"Shapes to time, BATCHxLENGTH. Default: {_SHAPES}, without --data.")
    ] = None,
    data: Annotated[
        str | None, typer.Option("--data", help="GLUE folder or Hub id: also time traffic of a task's real sentences.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="The GLUE task of --data.")] = None,
    scenario: Annotated[
        list[ScenarioChoice] | None, typer.Option(help="How traffic comes; repeat for several. Default: all three.")
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            help="Sentences a second of the server scenario; repeat for several. Default: half the baseline's pace."
        ),
    ] = None,
    max_length: o.MaxLength = 128,
    seconds: Annotated[float, typer.Option(help="Least measured time for each target and load.")] = 3.0,
    peers: Annotated[
        str | None,
        typer.Option(metavar="DIR|VARIANT", help="Instead: build and time the field's own ways to run this model."),
    ] = None,
    passes: Annotated[
        str | None,
        typer.Option(metavar="DIR|VARIANT", help="Instead: time this model's graphs with and without each graph pass."),
    ] = None,
    self_check: Annotated[
        bool,
        typer.Option("--self-check", help="Instead: time one TARGET against itself, and slowed by 10 %, under load."),
    ] = False,
    device: Annotated[DeviceChoice, typer.Option(help="cuda times one DIR's ways on a GPU.")] = DeviceChoice.cpu,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Time targets at fixed shapes or under real traffic, in turns, against a baseline."""
    from hf_albert_plus.eval.settings import BenchSettings
    from hf_albert_plus.eval.shapes import parse_shapes

    from ..files import write_json

    BenchSettings(seconds=seconds, rate=tuple(rate or ()), max_length=max_length)
    parsed = parse_shapes(_SHAPES if shapes is None else shapes)
    modes = [name for name, value in (("TARGET", targets), ("--peers", peers), ("--passes", passes)) if value]
    if len(modes) != 1:
        raise InvalidInput(
            "bench times targets, or --peers, or --passes",
            got=" and ".join(modes) or "none of them",
            repair="give one: albert-plus bench DIR:onnx-int8 --baseline DIR, or albert-plus bench --peers albert-base-v2",
        )
    if device is DeviceChoice.cuda and (peers or passes or baseline):
        raise InvalidInput(
            "--device cuda times one DIR in all its ways",
            got="it with --peers, --passes or --baseline",
            repair="use albert-plus bench DIR --device cuda",
        )
    if (data is None) != (task is None):
        raise InvalidInput(
            "traffic needs --data and --task", got="one of them", repair="add --data nyu-mll/glue --task sst2"
        )
    start(threads)
    document: dict[str, Any]
    if peers:
        from hf_albert_plus.eval.peers import bench_peers

        document = bench_peers(peers, shapes=parsed, seconds=seconds, threads=threads)
    elif passes:
        from hf_albert_plus.eval.passes import bench_passes

        document = bench_passes(passes, shapes=parsed, seconds=seconds, threads=threads)
    elif device is DeviceChoice.cuda:
        from hf_albert_plus.eval.cuda import bench_cuda
        from hf_albert_plus.eval.targets import parse_target

        document = bench_cuda(parse_target(_only(targets, "--device cuda")), shapes=parsed, seconds=seconds)
    elif self_check:
        from hf_albert_plus.eval.self_check import self_check as check
        from hf_albert_plus.eval.targets import parse_target

        document = check(parse_target(_only(targets, "--self-check")), shapes=parsed, seconds=seconds, threads=threads)
    else:
        from hf_albert_plus.eval.latency import bench_targets

        traffic = _traffic(data, task, max_length)
        parsed_targets, base = _with_baseline(targets or [], baseline)
        document = bench_targets(
            parsed_targets,
            shapes=[] if traffic and shapes is None else parsed,
            baseline=base,
            traffic=traffic,
            scenarios=tuple(choice.value for choice in scenario or ScenarioChoice),
            rates=tuple(rate or ()),
            seconds=seconds,
            threads=threads,
        )
    if json_file is not None:
        write_json(json_file, document)
    _print(document)


def _only(targets: list[str] | None, option: str) -> str:
    if targets is None or len(targets) != 1:
        raise InvalidInput(f"{option} times one target", got=f"{len(targets or [])} targets", repair="give one DIR")
    return targets[0]


def _traffic(data: str | None, task: str | None, max_length: int) -> Any:
    if data is None or task is None:
        return None
    from hf_albert_plus.eval.traffic import Traffic

    from ..glue import get_task

    return Traffic(data=data, task=get_task(task), max_length=max_length)


def _with_baseline(targets: list[str], baseline: str | None) -> tuple[Any, Any]:
    from hf_albert_plus.eval.targets import parse_target, parse_targets

    if baseline is None:
        raise InvalidInput(
            "a speedup needs a baseline", got="no --baseline", repair="add --baseline DIR, say of the teacher"
        )
    base = parse_target(baseline)
    there = base in [parse_target(text) for text in targets]
    return parse_targets([*targets, *([] if there else [baseline])]), base


_TIMING = ("p50 ms", "p99 ms", "/s", "speedup", "95 %")


def _print(document: dict[str, Any]) -> None:
    facts = _columns(document["rows"])
    rows = []
    for row in document["rows"]:
        cells = [row["label"], *(write(row) for write in facts.values())]
        for load in document["loads"]:
            cell = row["loads"].get(load)
            if cell is None:  # random tokens, and a graph with exits
                cells += [""] * len(_TIMING)
                continue
            low, high = cell["speedup_interval"]
            cells += [f"{cell['p50_ms']:.2f}", f"{cell['p99_ms']:.2f}"]
            cells += [f"{cell['items_per_s']:.0f}", f"{cell['speedup']:.2f}x", f"{low:.2f}-{high:.2f}"]
        rows.append(cells)
    print_rows(["model", *facts, *(f"{load}\n{column}" for load in document["loads"] for column in _TIMING)], rows)
    for label, reason in document.get("not_built", {}).items():
        notes.print(f"not built: {label} ({reason})", markup=False)
    for row in document["rows"]:
        for load, cell in row["loads"].items():
            if not cell.get("kept_up", True):
                notes.print(f"{row['label']} fell behind at {load}: {cell['items_per_s']:.0f}/s", markup=False)


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The columns before the timings that the rows have figures for."""
    writers = {
        "parameters": ("parameters", lambda row: f"{row['parameters']:,}"),
        "file MB": ("file_bytes", lambda row: "" if row["file_bytes"] is None else f"{row['file_bytes'] / 1e6:.1f}"),
        "int8 products": (
            "weight_products",
            lambda row: (
                "" if not row["weight_products"] else f"{row['quantised_products']} of {row['weight_products']}"
            ),
        ),
        "cosine": ("cosine", lambda row: f"{row['cosine']:.4f}"),
        "load ms": ("load_ms", lambda row: f"{row['load_ms']:.0f}"),
        "load MB": ("load_mb", lambda row: f"{row['load_mb']:.1f}"),
        "peak MB": ("peak_rss_mb", lambda row: f"{row['peak_rss_mb']:.0f}"),
        "passes": (
            "passes",
            lambda row: ", ".join(f"{name} {count}" for name, count in row["passes"].items()) or "none",
        ),
    }
    return {title: write for title, (key, write) in writers.items() if rows and all(key in row for row in rows)}


__all__ = ["bench"]
