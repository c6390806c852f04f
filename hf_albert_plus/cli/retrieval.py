"""The verb that searches: every query of a task against all its documents."""

from pathlib import Path
from typing import Annotated, Any

import typer

from . import options as o
from .console import notes, print_rows
from .stages import start


def retrieve(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Two towers (AlbertPlusTwinModel), tokenizer too.")],
    task: Annotated[str, typer.Option("--task", help="GLUE task of pairs that answer each other: mrpc, qqp.")],
    data: o.Data,
    index: Annotated[
        Path | None, typer.Option(help="Keep the documents' vectors here, or take them from here.", **o.FILE)
    ] = None,
    max_length: o.MaxLength = 128,
    threads: o.Threads = None,
    json_file: o.JsonFile = None,
) -> None:
    """Search a task's validation split with two towers, its documents encoded once."""
    from hf_albert_plus.eval.settings import EvalSettings

    from ..files import write_json
    from ..glue import get_task

    chosen = get_task(task)
    EvalSettings(max_length=max_length)
    start(threads)
    from hf_albert_plus.eval.retrieval import retrieve as search

    document = search(directory, data=data, task=chosen, max_length=max_length, threads=threads, index_file=index)
    if json_file is not None:
        write_json(json_file, document)
    _print(document)


def _print(document: dict[str, Any]) -> None:
    low, high = document["intervals"]["mrr"]
    metrics, pairs, latency = document["metrics"], document["pairs"], document["latency"]
    rows = [["MRR", f"{metrics['mrr']:.2f}", f"{low:.1f} to {high:.1f}"]]
    rows += [[name, f"{metrics[name]:.2f}", ""] for name in ("recall@1", "recall@10")]
    names = {"roc_auc": "ROC AUC of pairs", "accuracy": "accuracy of pairs", "f1": "F1 of pairs"}
    for name, title in names.items():
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


__all__ = ["retrieve"]
