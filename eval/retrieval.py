"""Two towers as a search engine: documents are encoded once, each query then meets all of them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.document_index import Towers, index, open_towers
from hf_albert_plus.eval.environment import FORMAT, environment
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.ranking import mean_interval, mean_ranks, recall_at, reciprocal_ranks, roc_auc
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.timing import elapsed_ms
from hf_albert_plus.export.engines import physical_cores
from hf_albert_plus.glue import MATCHING, Task, data_parent, load_split
from hf_albert_plus.progress import track

# Re-encoding documents for every query is timed on this many at most.
TIMED_DOCUMENTS = 100
ROUNDS = 5


def retrieve(
    directory: str | Path,
    *,
    data: str,
    task: Task,
    max_length: int = 128,
    threads: int | None = None,
    index_file: Path | None = None,
) -> dict[str, Any]:
    """Searches a task's validation split: the first texts of positive pairs are the queries, all distinct second texts
    the documents. A document that no pair of a query names counts as wrong.

    Args:
        directory: of a two-tower model with its tokenizer.
        index_file: where the documents' vectors are kept.

    Returns:
        A JSON-ready document: MRR with its bootstrap interval over queries, recall, the metrics of the labelled pairs, all
        in points, and the milliseconds of a query with kept documents and with documents encoded again.

    Raises:
        InvalidInput: no such task or model, or a stale index.
    """
    if task.name not in MATCHING:
        raise InvalidInput(
            "--task must have pairs whose second text answers the first",
            got=repr(task.name),
            repair=f"use one of {', '.join(MATCHING)}",
        )
    EvalSettings(max_length=max_length)
    torch.set_num_threads(threads or physical_cores())
    towers = open_towers(directory, max_length=max_length)
    (split,) = task.rows.values()
    rows = load_split(data, task, split)
    first, second, labels = (list(rows[column]) for column in (*task.columns, "label"))
    queries, documents = ({text: number for number, text in enumerate(dict.fromkeys(side))} for side in (first, second))
    positives: dict[str, set[int]] = {}
    for query, document, label in zip(first, second, labels, strict=True):
        if label == 1:
            positives.setdefault(query, set()).add(documents[document])
    if not positives:
        raise InvalidInput("a search needs queries", got="no positive pair", repair="choose data with label 1")
    vectors = index(towers, list(documents), file=index_file).vectors
    encoded = towers.encode(list(queries), description="encode queries")
    ranks = [
        mean_ranks(towers.cross(encoded[queries[query]][None], vectors), sorted(answers))
        for query, answers in track(positives.items(), total=len(positives), description="search")
    ]
    logits = towers.cross(encoded[[queries[text] for text in first]], vectors[[documents[text] for text in second]])
    reciprocal = reciprocal_ranks(ranks)
    return {
        "kind": "retrieval",
        "format": FORMAT,
        "directory": str(directory),
        "model_sha256": towers.sha256,
        "task": task.name,
        "split": split,
        "protocol": task.protocol,
        "data": data_parent(data, task),
        "max_length": max_length,
        "queries": len(positives),
        "documents": len(documents),
        "metrics": {
            "mrr": float(reciprocal.mean()),
            **{f"recall@{k}": recall_at(ranks, k) for k in (1, 10)},
        },
        "intervals": {"mrr": mean_interval(reciprocal)},
        "pairs": {
            "examples": len(labels),
            "roc_auc": roc_auc(logits, numpy.asarray(labels)),
            **compute_metrics((logits > 0).astype(int), numpy.asarray(labels), task),
        },
        "latency": _latency(towers, list(positives), list(documents)[:TIMED_DOCUMENTS], vectors[:TIMED_DOCUMENTS]),
        "environment": environment(threads=threads),
    }


def _latency(towers: Towers, queries: list[str], documents: list[str], vectors: torch.Tensor) -> dict[str, Any]:
    """Median milliseconds of one query, tokenisation included, the two ways in turns after a round of warming up."""

    def answer(query: str, *, keep: bool) -> None:
        towers.cross(towers.encode([query]), vectors if keep else towers.encode(documents))

    samples: dict[bool, list[float]] = {True: [], False: []}
    for number in range(ROUNDS + 1):
        for keep, taken in samples.items():
            taken.append(elapsed_ms(partial(answer, queries[number % len(queries)], keep=keep)))
    kept_ms, encoded_ms = (float(numpy.median(taken[1:])) for taken in samples.values())
    return {
        "documents": len(documents),
        "rounds": ROUNDS,
        "kept_ms": round(kept_ms, 3),
        "encoded_ms": round(encoded_ms, 3),
        "speedup": round(encoded_ms / kept_ms, 2),
    }


__all__ = ["retrieve"]
