"""Search with two towers, or with the vectors of a sentence encoder: documents are encoded once and kept in an index, each query meets all
of them, and the ranks of the right answers are scored."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch

from hf_albert_plus.engines.artefacts import directory_and_runtime
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency.timing import elapsed_ms
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.retrieval.document_index import index
from hf_albert_plus.eval.retrieval.ranks import mean_interval, mean_ranks, recall_at, reciprocal_ranks, roc_auc
from hf_albert_plus.eval.retrieval.towers import Towers, open_towers
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.eval.vector_targets import STATIC, EncoderVectors, StaticVectors, VectorTarget, is_encoder
from hf_albert_plus.machine import FORMAT, environment, use_threads
from hf_albert_plus.records.progress import track
from hf_albert_plus.tasks.glue import MATCHING
from hf_albert_plus.tasks.splits import data_parent, load_split
from hf_albert_plus.tasks.task import Task

# Re-encoding documents for every query is timed on this many at most.
TIMED_DOCUMENTS = 100
ROUNDS = 5


def retrieve(
    searcher: str | Path | None,
    *,
    data: str,
    task: Task,
    max_length: int = 128,
    threads: int | None = None,
    index_file: Path | None = None,
    static: str | None = None,
) -> dict[str, Any]:
    """Searches a task's validation split: the first texts of positive pairs are the queries, all distinct second texts
    the documents. A document that no pair of a query names counts as wrong.

    Args:
        searcher: directory of a two-tower model with its tokenizer, or a target (`DIR:RUNTIME`) that gives vectors, of which the cosine
            decides; None where static vectors search.
        index_file: where the documents' vectors are kept.
        static: directory or Hub id of an encoder whose tokens' static vectors search in place of a model.

    Returns:
        A JSON-ready document: MRR with its bootstrap interval over queries, recall, the metrics of the labelled pairs, all
        in points, and the milliseconds of a query with kept documents and with documents encoded again. Of cosines, which decide
        nothing about a pair, the pairs have the area under the curve alone.

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
    use_threads(threads)
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
    encoder = _open(searcher, static, [*queries, *documents], max_length=max_length, threads=threads)
    vectors = index(encoder, list(documents), file=index_file).vectors
    encoded = encoder.encode(list(queries), description="encode queries")
    ranks = [
        mean_ranks(encoder.cross(encoded[queries[query]][None], vectors), sorted(answers))
        for query, answers in track(positives.items(), total=len(positives), description="search")
    ]
    logits = encoder.cross(encoded[[queries[text] for text in first]], vectors[[documents[text] for text in second]])
    reciprocal = reciprocal_ranks(ranks)
    return {
        "kind": "retrieval",
        "format": FORMAT,
        "directory": str(searcher) if searcher is not None else f"{STATIC} of {static}",
        "model_sha256": encoder.sha256,
        "task": task.name,
        "split": split,
        "protocol": task.protocol,
        "data": data_parent(data, task),
        "max_length": encoder.max_length,
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
            **(
                compute_metrics((logits > 0).astype(int), numpy.asarray(labels), task)
                if isinstance(encoder, Towers)
                else {}
            ),
        },
        "latency": _latency(encoder, list(positives), list(documents)[:TIMED_DOCUMENTS], vectors[:TIMED_DOCUMENTS]),
        "environment": environment(threads=threads),
    }


def _open(
    searcher: str | Path | None, static: str | None, texts: list[str], *, max_length: int, threads: int | None
) -> VectorTarget:
    """What makes the vectors.

    Raises:
        InvalidInput: none or two are named, or a model that gives none.
    """
    if (searcher is None) == (static is None):
        raise InvalidInput(
            "retrieve searches with a target or with --static vectors",
            got="neither" if static is None else "both",
            repair="give one: albert-plus retrieve DIR:onnx-int8 --task qqp --data FOLDER",
        )
    if static is not None:
        return StaticVectors.of(static, texts)
    directory, runtime = directory_and_runtime(str(searcher))
    if runtime is None and not is_encoder(directory):
        return open_towers(directory, max_length=max_length)
    return EncoderVectors.open(parse_target(str(searcher)), max_length=max_length, threads=threads)


def _latency(encoder: VectorTarget, queries: list[str], documents: list[str], vectors: torch.Tensor) -> dict[str, Any]:
    """Median milliseconds of one query, tokenisation included, the two ways in turns after a round of warming up."""

    def answer(query: str, *, keep: bool) -> None:
        encoder.cross(encoder.encode([query]), vectors if keep else encoder.encode(documents))

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
