"""The verbs of the main job: from a seed alone, and from a real checkpoint."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..hub_connection import check_model
from . import options as o
from .console import print_json, print_table, start
from .distil import split_settings
from .settings import RunSettings
from .settings_options import with_settings
from .task_options import AllLearned


def demo(
    out: o.Out = Path("demo-output"),
    seed: o.Seed = 0,
    threads: o.Threads = None,
    stop_after: Annotated[
        str | None, typer.Option(help="Stop after this stage: data, pretrain, finetune, distill, export, eval, bench.")
    ] = None,
    as_json: o.JsonOut = False,
) -> None:
    """Do the main job offline, on data that the demo makes itself: teacher, student, exports, scores, latency, report."""
    start(threads)
    from .demo_chain import run_demo

    table = run_demo(out, seed=seed, threads=threads, stop_after=stop_after)
    _finish(table, out, tasks=["sst2"], as_json=as_json, title="albert-plus demo")


@with_settings
def run(
    teacher: Annotated[
        str,
        typer.Option(
            help="Model directory or Hub id of a pretrained encoder, or of a classifier with the labels of the data, which is not trained again."
        ),
    ],
    on: AllLearned,
    out: o.Out,
    settings: RunSettings,
    pooling: o.PoolingChoice = None,
    head_learning_rate: o.HeadLearningRate = None,
    set_: o.MethodSet = None,
    threads: o.Threads = None,
    stop_after: Annotated[
        str | None,
        typer.Option(
            help="Stop after this stage: finetune, distill, export, eval (with the floor), bench. Again without it goes on."
        ),
    ] = None,
    as_json: o.JsonOut = False,
) -> None:
    """Make a small, fast model of your data or of GLUE from a checkpoint: fine-tune, distil, export, score, time, report."""
    check_model(teacher, option="--teacher")
    start(threads)
    from .pipeline import run_pipeline

    values, overrides = split_settings(set_ or [], method=settings.method)
    settings = replace(
        settings, values=values, overrides=overrides, pooling=pooling, head_learning_rate=head_learning_rate
    )
    table = run_pipeline(
        teacher, data=on.data, tasks=on.tasks, out=out, settings=settings, threads=threads, stop_after=stop_after
    )
    names = [task.name for task in on.tasks]
    _finish(table, out, tasks=names, as_json=as_json, title=f"albert-plus run: {', '.join(names)}")


def _finish(table: Any, out: Path, *, tasks: Sequence[str], as_json: bool, title: str) -> None:
    if as_json:
        from hf_albert_plus.eval.reporting.presentation import records

        print_json({"out": str(out), "rows": [] if table is None else records(table)})
        return
    if table is None:
        return
    from .pipeline import model_directory

    print_table(table, title=title)
    for name in ("report.md", "report.html", "report.csv", "report.json"):
        typer.echo(str(out / "report" / name))
    for name in tasks:
        typer.echo(f"to serve it: albert-plus serve {model_directory(out, 'student', name)}:onnx-int8")
