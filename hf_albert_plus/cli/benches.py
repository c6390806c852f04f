"""The verb that times: targets against a baseline, the field's own ways, graph passes, a GPU."""

from enum import Enum
from typing import Annotated, Any

import typer

from ..errors import InvalidInput
from . import options as o
from .console import notes, print_rows
from .stages import start


class DeviceChoice(str, Enum):
    """Where to time."""

    cpu = "cpu"
    cuda = "cuda"


def bench(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...", help="DIR (torch) or DIR:RUNTIME, as DIR:onnx-int8; NAME=… names its row."
        ),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="The target whose speed counts as 1.00x.")] = None,
    peers: Annotated[
        str | None,
        typer.Option(metavar="DIR|VARIANT", help="Instead: build and time the field's own ways to run this model."),
    ] = None,
    passes: Annotated[
        str | None,
        typer.Option(metavar="DIR|VARIANT", help="Instead: time this model's graphs with and without each graph pass."),
    ] = None,
    shapes: Annotated[str, typer.Option(help="Shapes to time, BATCHxLENGTH.")] = "1x16,1x128,8x128",
    seconds: Annotated[float, typer.Option(help="Measured time for each target and shape.")] = 3.0,
    memory: Annotated[bool, typer.Option("--memory", help="Also load each target in a process of its own.")] = False,
    device: Annotated[DeviceChoice, typer.Option(help="cuda times one DIR's ways on a GPU.")] = DeviceChoice.cpu,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Time targets at fixed shapes, interleaved, against a baseline."""
    from hf_albert_plus.eval.latency import parse_shapes

    from ..records import write_json

    parsed = parse_shapes(shapes)
    modes = [name for name, value in (("TARGET", targets), ("--peers", peers), ("--passes", passes)) if value]
    if len(modes) != 1:
        raise InvalidInput(
            "bench times targets, or --peers, or --passes",
            got=" and ".join(modes) or "none of them",
            repair="give one: albert-plus bench DIR:onnx-int8 --baseline DIR, or albert-plus bench --peers albert-base-v2",
        )
    if not seconds > 0:
        raise InvalidInput("--seconds must be greater than 0", got=seconds, repair="use --seconds 3")
    if device is DeviceChoice.cuda and (peers or passes or memory or baseline):
        raise InvalidInput(
            "--device cuda times one DIR in all its ways",
            got="it with --peers, --passes, --memory or --baseline",
            repair="use albert-plus bench DIR --device cuda",
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

        document = bench_cuda(parse_target(_only(targets or [])), shapes=parsed)
    else:
        document = _targets(targets or [], baseline, parsed, seconds=seconds, threads=threads, memory=memory)
    if json_file is not None:
        write_json(json_file, document)
    _print(document)


def _only(targets: list[str]) -> str:
    if len(targets) != 1:
        raise InvalidInput(
            "--device cuda times one model directory in all its ways",
            got=f"{len(targets)} targets",
            repair="give one DIR",
        )
    return targets[0]


def _targets(
    targets: list[str], baseline: str | None, shapes: Any, *, seconds: float, threads: int | None, memory: bool
) -> dict[str, Any]:
    from hf_albert_plus.eval.latency import bench_targets
    from hf_albert_plus.eval.loading import measure_loading
    from hf_albert_plus.eval.targets import parse_target, parse_targets
    from hf_albert_plus.export.engines import physical_cores

    if baseline is None:
        raise InvalidInput(
            "a speedup needs a baseline", got="no --baseline", repair="add --baseline DIR, say of the teacher"
        )
    base = parse_target(baseline)
    parsed = parse_targets([*targets, *([] if base in [parse_target(text) for text in targets] else [baseline])])
    document = bench_targets(parsed, shapes=shapes, baseline=base, seconds=seconds, threads=threads)
    if memory:
        for target, row in zip(parsed, document["rows"], strict=True):
            row.update(measure_loading(target, threads=threads or physical_cores()))
    return document


def _print(document: dict[str, Any]) -> None:
    rows = []
    facts = _columns(document["rows"])
    for row in document["rows"]:
        cells = [row["label"], *(write(row) for write in facts.values())]
        for cell in row["shapes"].values():
            cells += [f"{cell['p50_ms']:.2f}", f"{cell['p95_ms']:.2f}", f"{cell['speedup']:.2f}x"]
        rows.append(cells)
    timing = [f"{shape} {column}" for shape in document["shapes"] for column in ("p50 ms", "p95 ms", "speedup")]
    print_rows(["model", *facts, *timing], rows)
    for label, reason in document.get("not_built", {}).items():
        notes.print(f"not built: {label} ({reason})", markup=False)


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
        "load MB": ("load_mb", lambda row: f"{row['load_mb']:.1f}"),
        "load ms": ("load_ms", lambda row: f"{row['load_ms']:.0f}"),
        "passes": (
            "passes",
            lambda row: ", ".join(f"{name} {count}" for name, count in row["passes"].items()) or "none",
        ),
    }
    return {title: write for title, (key, write) in writers.items() if rows and all(key in row for row in rows)}


__all__ = ["bench"]
