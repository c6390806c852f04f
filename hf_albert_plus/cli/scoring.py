"""The verbs that score: on GLUE's labelled splits, and for its server."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidInput, suggest
from . import options as o
from .console import notes, print_json, print_rows
from .stages import start


def evaluate(
    task: o.TaskName,
    data: o.Data,
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]...",
            help="DIR (torch) or DIR:RUNTIME, as DIR:onnx-int8. Several NAME=DIR:RUNTIME of one NAME are one row's seeds.",
        ),
    ] = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ROW=]FILE",
            help="Score this file of index<TAB>prediction instead; mnli-mm=FILE for MNLI's other half.",
        ),
    ] = None,
    save_predictions: Annotated[
        Path | None, typer.Option(help="Also write each target's predictions into this folder.", **o.OUTPUT)
    ] = None,
    max_length: o.MaxLength = 128,
    batching: Annotated[
        list[str] | None,
        typer.Option(
            help="length:TOKENS (rows of similar length, a token budget) or file:ROWS (the file's order); repeat to compare."
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each way of batching is timed, in turns.")] = 1,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Score targets, or files of predictions, on a GLUE task's validation split, with intervals."""
    from hf_albert_plus.eval.settings import EvalSettings

    from ..files import write_json
    from ..glue import get_task

    chosen = get_task(task)
    EvalSettings(max_length=max_length, rounds=rounds)
    if bool(targets) == bool(predictions):
        raise InvalidInput(
            "eval scores targets or --predictions",
            got="both" if targets else "neither",
            repair="give one: albert-plus eval DIR:onnx-int8 --task sst2 --data nyu-mll/glue",
        )
    document: dict[str, Any]
    if predictions:
        from hf_albert_plus.eval.score import score_predictions

        document = score_predictions(
            [_row_file(text, next(iter(chosen.rows))) for text in predictions], data=data, task=chosen
        )
    else:
        from hf_albert_plus.eval.targets import parse_targets

        parsed = parse_targets(targets or [], runs=True)
        from hf_albert_plus.eval.inference import parse_batching

        ways = tuple(parse_batching(text) for text in batching or ["length"])
        start(threads)
        from hf_albert_plus.eval.score import score_targets

        document = score_targets(
            parsed, data=data, task=chosen, max_length=max_length, batching=ways, rounds=rounds, threads=threads
        )
    if save_predictions is not None:
        _save(document, save_predictions, chosen)
    if json_file is not None:
        write_json(json_file, document)
    _print(document, chosen)


def _row_file(text: str, first: str) -> tuple[str, Path]:
    row, equals, path = text.partition("=")
    return (row, Path(path)) if equals and not Path(text).exists() else (first, Path(text))


def _save(document: dict[str, Any], folder: Path, task: Any) -> None:
    import numpy

    from hf_albert_plus.eval.predictions import write_predictions

    for row in document["rows"]:
        for number, run in enumerate(row["runs"], start=1):
            of_run = f"-{number}" if len(row["runs"]) > 1 else ""
            path = folder / f"{row['task']}-{row['name']}-{row['runtime']}{of_run}.tsv"
            write_predictions(path, numpy.asarray(run["predictions"]), task)


def _print(document: dict[str, Any], task: Any) -> None:
    ways = list(
        dict.fromkeys(way["batching"] for row in document["rows"] for way in row["runs"][0].get("throughput", ()))
    )
    several = any(len(row["runs"]) > 1 for row in document["rows"])
    has_exits = any("average_layers" in row["runs"][0] for row in document["rows"])
    rows = []
    for row in document["rows"]:
        cells = [row["label"], row["task"], row["split"], str(row["examples"])]
        cells += [str(len(row["runs"]))] if several else []
        for metric in task.metrics:
            cells += [_points(row["metrics"][metric]), *([_range(row["spread"][metric])] if several else [])]
            cells.append(_range(row["intervals"][metric]))
        cells += [_layers(row["runs"])] if has_exits else []
        cells += [f"{speed['sentences_per_s']:.0f}" for speed in row["runs"][0].get("throughput", ())]
        rows.append(cells)
    metrics = [column for metric in task.metrics for column in (metric, *(["range"] if several else []), "95 %")]
    header = ["model", "task", "split", "examples", *(["seeds"] if several else []), *metrics]
    header += ["average layers"] if has_exits else []
    print_rows([*header, *(f"sentences/s {way}" for way in ways)], rows)
    for row in document["rows"]:
        if row["examples"] != row["glue_examples"]:
            notes.print(
                f"{row['task']} {row['split']}: {row['examples']} rows, GLUE has {row['glue_examples']}", markup=False
            )
            break


def _layers(runs: list[dict[str, Any]]) -> str:
    """Layers that a row of text ran in the mean over all runs."""
    found = [run["average_layers"] for run in runs if "average_layers" in run]
    return f"{sum(found) / len(found):.2f}" if found else "all"


def _points(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _range(interval: list[float] | None) -> str:
    return "undefined" if interval is None else f"{interval[0]:.1f} to {interval[1]:.1f}"


def submit(
    answers: Annotated[
        list[str], typer.Argument(metavar="TASK=TARGET...", help="Which target answers a task: sst2=DIR:onnx-int8.")
    ],
    data: o.Data,
    out: Annotated[Path, typer.Option("--out", help="The zip to write.", **o.FILE)] = Path("submission.zip"),
    max_length: o.MaxLength = 128,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Predict GLUE's test splits and write the zip that gluebenchmark.com takes."""
    from hf_albert_plus.eval.predictions import write_submission
    from hf_albert_plus.eval.settings import EvalSettings
    from hf_albert_plus.eval.targets import parse_target

    from ..glue import TASKS, get_task

    EvalSettings(max_length=max_length)
    chosen = {}
    for answer in answers:
        name, _, text = answer.partition("=")
        if name not in TASKS or not text:
            raise InvalidInput(
                "an answer must be TASK=TARGET",
                got=repr(answer),
                repair=suggest(name, [f"{task}=DIR" for task in TASKS]),
            )
        chosen[name] = parse_target(text)
    if "mnli" in chosen:
        chosen.setdefault("ax", chosen["mnli"])
    start(threads)
    from hf_albert_plus.eval.submission import answer_tests

    files: dict[str, str] = {}
    for name, target in chosen.items():
        files |= answer_tests(target, task=get_task(name), data=data, max_length=max_length, threads=threads)
    missing = write_submission(out, files)
    if as_json:
        print_json({"out": str(out), "files": list(files), "missing": missing})
        return
    if missing:
        notes.print(f"not in the zip, and the server asks for all: {', '.join(missing)}", markup=False)
    typer.echo(str(out))


__all__ = ["evaluate", "submit"]
