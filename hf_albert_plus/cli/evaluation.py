"""The verbs that score: on labelled splits, for the benchmark's server, and two towers as a search engine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hf_albert_plus.eval.settings import EvalSettings

from ..errors import InvalidInput, suggest
from ..hub_connection import check_data, check_model
from ..tasks.glue import get_task
from . import options as o
from .console import gives_json, notes, print_json, print_rows, start
from .settings_options import Fields, with_settings
from .task_options import Scored

if TYPE_CHECKING:
    from hf_albert_plus.eval.measured_documents import ScoredRow, Scores

    from ..tasks.task import Task


_Static = Annotated[
    str | None,
    typer.Option(
        help="An encoder whose tokens' static vectors (model2vec) are the floor: what a sentence encoder must be better than."
    ),
]


@with_settings
def evaluate(
    on: Scored,
    settings: EvalSettings,
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
    static: _Static = None,
    out: o.RecordOut = None,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Score targets, or files of predictions, on a task's validation split, and on your own test split, with intervals.

    Of a sentence encoder, an export with --pooling or a directory with a modules.json, the cosine of two texts is scored against a number.
    """
    chosen, data = on.task, on.data
    if bool(targets or static) == bool(predictions):
        raise InvalidInput(
            "eval scores targets or --predictions",
            got="both" if predictions else "neither",
            repair="give one: albert-plus eval DIR:onnx-int8 --data FILE",
        )
    if static is not None:
        check_model(static, option="--static")
    from hf_albert_plus.eval import scoring
    from hf_albert_plus.eval.batched_inference import parse_batching
    from hf_albert_plus.eval.measured_documents import read_scores
    from hf_albert_plus.eval.targets import parse_targets

    if predictions:
        files = [_row_file(text, next(iter(chosen.rows))) for text in predictions]
        if out is None:
            scores = scoring.score_predictions(files, data=data, task=chosen)
        else:
            scoring.score_files(files, data=data, task=chosen, output=out)
    else:
        parsed = parse_targets(targets or [], runs=True)
        for text in settings.batching:
            parse_batching(text)
        start(threads)
        options: dict[str, Any] = {
            "data": data,
            "task": chosen,
            "settings": settings,
            "threads": threads,
            "static": static,
        }
        if out is None:
            scores = scoring.score_targets(parsed, **options)
        else:
            scoring.score(parsed, output=out, **options)
    if out is not None:
        scores = read_scores(out / scoring.SCORES)
    if save_predictions is not None:
        _save(scores, save_predictions, chosen)
    if not gives_json(scores, json_file):
        _print(scores, chosen)


def _row_file(text: str, first: str) -> tuple[str, Path]:
    row, equals, path = text.partition("=")
    return (row, Path(path)) if equals and not Path(text).exists() else (first, Path(text))


def _save(scores: "Scores", folder: Path, task: "Task") -> None:
    from hf_albert_plus.eval.predictions import from_numbers, write_predictions

    for row in scores.rows:
        for number, run in enumerate(row.runs, start=1):
            of_run = f"-{number}" if len(row.runs) > 1 else ""
            path = folder / f"{row.task}-{row.name}-{row.runtime}{of_run}.tsv"
            write_predictions(path, from_numbers(run.predictions, task), task)


def _print(scores: "Scores", task: "Task") -> None:
    from hf_albert_plus.eval.metrics import measure_text

    ways = list(dict.fromkeys(way.batching for row in scores.rows for way in row.runs[0].throughput or ()))
    several = any(len(row.runs) > 1 for row in scores.rows)
    has_exits = any(row.runs[0].average_layers is not None for row in scores.rows)
    has_windows = any(row.runs[0].windows is not None for row in scores.rows)
    rows = []
    for row in scores.rows:
        cells = [row.label, row.task, row.split, str(row.examples)]
        cells += [str(len(row.runs))] if several else []
        for metric in task.metrics:
            cells.append(measure_text(metric, row.metrics[metric], decimals=2))
            cells += [_range(metric, row.spread[metric])] if several else []
            cells.append(_range(metric, row.intervals[metric]))
        cells += [_layers(row)] if has_exits else []
        cells += [str(row.runs[0].windows or 1)] if has_windows else []
        paces = {way.batching: way for way in row.runs[0].throughput or ()}
        cells += [f"{paces[way].sentences_per_s:.0f}" if way in paces else "" for way in ways]
        cells += [f"{paces[way].words_per_s or 0:.0f}" if way in paces else "" for way in ways if task.has_tags]
        rows.append(cells)
    metrics = [column for metric in task.metrics for column in (metric, *(["range"] if several else []), "95 %")]
    header = ["model", "task", "split", "examples", *(["seeds"] if several else []), *metrics]
    header += ["average layers"] if has_exits else []
    header += ["windows a text"] if has_windows else []
    units = ["sentences/s", *(["words/s"] if task.has_tags else [])]
    print_rows([*header, *(f"{unit} {way}" for unit in units for way in ways)], rows)
    for row in scores.rows:
        if row.differs_from_glue:
            notes.print(f"{row.task} {row.split}: {row.examples} rows, GLUE has {row.glue_examples}", markup=False)
            break


def _layers(row: "ScoredRow") -> str:
    """Layers that a row of text ran in the mean over all runs."""
    layers = [run.average_layers for run in row.runs if run.average_layers is not None]
    return f"{sum(layers) / len(layers):.2f}" if layers else "all"


def _range(metric: str, interval: list[float] | None) -> str:
    from hf_albert_plus.eval.metrics import measure_text

    bounds = [measure_text(metric, bound, decimals=1) for bound in interval or (None,)]
    return " to ".join(bounds)


@with_settings
def submit(
    answers: Annotated[
        list[str], typer.Argument(metavar="TASK=TARGET...", help="Which target answers a task: sst2=DIR:onnx-int8.")
    ],
    data: o.Data,
    settings: Annotated[EvalSettings, Fields(only=("max_length",))],
    out: Annotated[Path, typer.Option("--out", help="The zip to write.", **o.FILE)] = Path("submission.zip"),
    threads: o.Threads = None,
    as_json: o.JsonOut = False,
) -> None:
    """Predict GLUE's test splits and write the zip that gluebenchmark.com takes."""
    from hf_albert_plus.eval.predictions import write_submission
    from hf_albert_plus.eval.targets import parse_target

    from ..tasks.glue import TASKS, get_task

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
        files |= answer_tests(target, task=get_task(name), data=data, max_length=settings.max_length, threads=threads)
    missing = write_submission(out, files)
    if as_json:
        print_json({"out": str(out), "files": list(files), "missing": missing})
        return
    if missing:
        notes.print(f"not in the zip, and the server asks for all: {', '.join(missing)}", markup=False)
    typer.echo(str(out))


@with_settings
def retrieve(
    task: Annotated[str, typer.Option("--task", help="GLUE task of pairs that answer each other: mrpc, qqp.")],
    data: o.Data,
    settings: Annotated[EvalSettings, Fields(only=("max_length",))],
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]",
            help="DIR of two towers (AlbertPlusTwinModel), or DIR[:RUNTIME] of a sentence encoder, tokenizer too.",
        ),
    ] = None,
    static: _Static = None,
    index: Annotated[
        Path | None, typer.Option(help="Keep the documents' vectors here, or take them from here.", **o.FILE)
    ] = None,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Search a task's validation split with two towers or a sentence encoder, its documents encoded once."""
    chosen = get_task(task)
    check_data(data)
    if static is not None:
        check_model(static, option="--static")
    start(threads)
    from hf_albert_plus.eval.retrieval.search import retrieve as search

    document = search(
        target,
        data=data,
        task=chosen,
        max_length=settings.max_length,
        threads=threads,
        index_file=index,
        static=static,
    )
    if not gives_json(document, json_file):
        _print_retrieval(document)


def _print_retrieval(document: dict[str, Any]) -> None:
    low, high = document["intervals"]["mrr"]
    metrics, pairs, latency = document["metrics"], document["pairs"], document["latency"]
    rows = [["MRR", f"{metrics['mrr']:.2f}", f"{low:.1f} to {high:.1f}"]]
    rows += [[name, f"{metrics[name]:.2f}", ""] for name in ("recall@1", "recall@10")]
    names = {"roc_auc": "ROC AUC of pairs", "accuracy": "accuracy of pairs", "f1": "F1 of pairs"}
    for name, title in names.items():
        if name in pairs:
            rows.append([title, "undefined" if pairs[name] is None else f"{pairs[name]:.2f}", ""])
    title = f"{document['directory']}: {document['task']} {document['split']}"
    print_rows(
        [f"{document['queries']} queries, {document['documents']} documents", "points", "95 %"], rows, title=title
    )
    notes.print(
        f"a query among {latency['documents']} documents: {latency['kept_ms']:.1f} ms with kept vectors, "
        f"{latency['encoded_ms']:.1f} ms with documents encoded again ({latency['speedup']:.1f} ×)",
        markup=False,
    )
