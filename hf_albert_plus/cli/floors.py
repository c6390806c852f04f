"""The verb that says what a task gives without an encoder."""

from typing import Annotated

import typer

from ..hub_connection import check_model
from ..tasks.task import check_answers_texts
from . import options as o
from .console import print_json, print_rows, start
from .settings_options import with_settings
from .task_options import Learned


@with_settings
def floor(
    on: Learned,
    out: o.Out,
    teacher: Annotated[
        str | None,
        typer.Option(help="Directory or Hub id of an encoder, whose vectors of single tokens make the second row."),
    ] = None,
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Fit, score and time classifiers without an encoder: TF-IDF and, with a teacher, static embeddings; of tags the words and what is around them.

    An encoder is worth what it scores above them. OUT/scores.json can be given to albert-plus report as one of its --scores.
    """
    if teacher is not None:
        check_answers_texts(on.task, what="floor --teacher", repair="leave out --teacher")
        check_model(teacher, option="--teacher")
    start(threads)
    from hf_albert_plus.eval.floor.stage import floor as stage
    from hf_albert_plus.eval.measured_documents import read_scores
    from hf_albert_plus.eval.reporting.presentation import interval_text
    from hf_albert_plus.eval.scoring import SCORES

    record = stage(data=on.data, task=on.task, output=out, teacher=teacher, threads=threads)
    scores = read_scores(out / SCORES)
    if as_json:
        print_json({"out": str(out), "reused": record.reused, "result": record.result})
        return
    cells = []
    for row in scores.rows:
        run = row.runs[0]
        pace = (run.throughput or [])[0]
        texts = [interval_text(name, row.metrics[name], row.intervals[name]) for name in on.task.metrics]
        cells.append(
            [row.label, row.split, *texts, f"{(run.file_bytes or 0) / 1e6:.1f}", f"{pace.sentences_per_s:,.0f}"]
        )
    header = ["model", "split", *on.task.metrics, "MB", "sentences/s"]
    print_rows(header, cells, title=f"the floor of {on.task.name}, from text to answer")
    typer.echo(str(out))
