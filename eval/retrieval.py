"""Search with two towers, or with the vectors of a sentence encoder: documents are encoded once and kept in an index, each query meets all
of them, and the ranks of the right answers are scored."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from scipy.stats import rankdata

from hf_albert_plus.bootstrap import percentile_interval
from hf_albert_plus.checkpoints import load_towers
from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.artefacts import directory_and_runtime
from hf_albert_plus.engines.batch_plans import TOKEN_BUDGET, token_batches
from hf_albert_plus.engines.batching import pad_rows
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency.timing import elapsed_ms
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.resampling import DRAWS
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.eval.vector_targets import (
    STATIC,
    EncoderVectors,
    StaticVectors,
    VectorTarget,
    is_encoder,
    list_hash,
    vectors_hash,
)
from hf_albert_plus.heads import architecture_of
from hf_albert_plus.machine import FORMAT, environment, use_threads
from hf_albert_plus.records.files import writing
from hf_albert_plus.records.progress import track
from hf_albert_plus.tasks.glue import MATCHING
from hf_albert_plus.tasks.rows import fits_positions, load_tokenizer
from hf_albert_plus.tasks.splits import data_parent, load_split
from hf_albert_plus.tasks.task import Task
from hf_albert_plus.twin_albert_plus import AlbertPlusTwinModel


def mean_ranks(scores: numpy.ndarray, chosen: list[int]) -> numpy.ndarray:
    """Ranks of chosen documents among all, 1 the best; equal scores share the mean of their ranks, so that a model that
    scores all alike gains nothing.

    Shape: `[documents]` -> `[chosen]`.
    """
    ranks: numpy.ndarray = rankdata(-scores)
    return ranks[chosen]


def reciprocal_ranks(ranks: list[numpy.ndarray]) -> numpy.ndarray:
    """1 / rank of each query's best positive, in points, `[queries]`; their mean is MRR."""
    return numpy.array([100 / of_query.min() for of_query in ranks])


def recall_at(ranks: list[numpy.ndarray], k: int) -> float:
    """Share of a query's positives that rank at most k, mean over the queries, in points."""
    return float(numpy.mean([100 * (of_query <= k).mean() for of_query in ranks]))


def roc_auc(scores: numpy.ndarray, labels: numpy.ndarray) -> float | None:
    """How often a positive scores above a negative, ties counting half (Mann and Whitney, 1947), in points; None where
    one of them is missing."""
    positives, negatives = int((labels == 1).sum()), int((labels != 1).sum())
    if not positives or not negatives:
        return None
    above = rankdata(scores)[labels == 1].sum() - positives * (positives + 1) / 2
    return float(100 * above / (positives * negatives))


def mean_interval(values: numpy.ndarray, *, seed: int = 0) -> list[float] | None:
    """Percentile interval of a mean, its values drawn with replacement (Efron and Tibshirani, 1993, ch. 13)."""
    generator = numpy.random.default_rng(seed)
    means = [values[generator.integers(len(values), size=len(values))].mean() for _ in range(DRAWS)]
    return percentile_interval(numpy.array(means))


@dataclass(frozen=True)
class Towers:
    """An opened two-tower model.

    Attributes:
        sha256: hash of all that decides a vector: weights, config and tokenizer.
        max_length: longest text in tokens; the rest is cut.
    """

    model: AlbertPlusTwinModel
    tokenizer: Any
    sha256: str
    max_length: int

    @torch.no_grad()
    def encode(self, texts: list[str], *, description: str | None = None) -> torch.Tensor:
        """Vectors of texts.

        Shape: `[texts, hidden]`.
        """
        encoded = self.tokenizer(texts, truncation=True, max_length=self.max_length)
        rows = [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]
        batches = token_batches([len(row["input_ids"]) for row in rows], budget=TOKEN_BUDGET)
        vectors = torch.empty(len(texts), self.model.config.hidden_size)
        for batch in track(batches, total=len(batches), description=description):
            vectors[batch] = self.model.encode(**pad_rows([rows[row] for row in batch], self.tokenizer))
        return vectors

    @torch.no_grad()
    def cross(self, queries: torch.Tensor, documents: torch.Tensor) -> numpy.ndarray:
        """Logits of pairs of vectors; one query `[1, hidden]` meets all documents.

        Shape: `[pairs, hidden]` twice -> `[pairs]`.

        Raises:
            InvalidInput: logits that are not finite, which would rank before all others.
        """
        logits: numpy.ndarray = self.model.cross(queries, documents).numpy()
        if not numpy.isfinite(logits).all():
            raise InvalidInput(
                "logits must be finite", got="NaN or infinity", repair="train in fp32, or at a lower learning rate"
            )
        return logits


def open_towers(directory: str | Path, *, max_length: int = 128) -> Towers:
    """Opens a two-tower model in fp32.

    Raises:
        InvalidInput: another architecture, weights missing or left over, or fewer positions than `max_length`.
    """
    config = load_config(directory, option="DIR")
    if architecture_of(config) != AlbertPlusTwinModel.__name__:
        raise InvalidInput(
            "DIR must hold two towers (AlbertPlusTwinModel)",
            got=f"{architecture_of(config)} in {directory}",
            repair="score a classifier with albert-plus eval",
        )
    fits_positions(config, max_length)
    model = load_towers(directory, option="DIR")
    return Towers(model.eval(), load_tokenizer(directory, config), vectors_hash(directory, "torch"), max_length)


@dataclass(frozen=True)
class DocumentIndex:
    """Vectors of documents in the order of their texts, and hashes of what they were made from.

    Attributes:
        vectors: `[documents, hidden]`.
        made_from: what -> its hash or value.
    """

    vectors: torch.Tensor
    made_from: dict[str, str]

    @classmethod
    def build(cls, towers: VectorTarget, texts: list[str]) -> "DocumentIndex":
        return cls(towers.encode(texts, description="encode documents"), _origin(towers, texts))

    def save(self, path: Path) -> None:
        """Writes a safetensors file, whole or not at all."""
        with writing(path) as temporary:
            save_file({"vectors": self.vectors}, temporary, metadata=self.made_from)

    @classmethod
    def load(cls, path: Path, towers: VectorTarget, texts: list[str]) -> "DocumentIndex":
        """Reads the index of these texts by this model.

        Raises:
            InvalidInput: no index, or one of other texts, in another order, of another model or length.
        """
        expected = _origin(towers, texts)
        try:
            with safe_open(path, "pt") as file:
                made_from = file.metadata() or {}
                stale = [what for what, value in expected.items() if made_from.get(what) != value]
                if not stale:
                    return cls(file.get_tensor("vectors"), made_from)
        except (OSError, SafetensorError) as error:
            raise InvalidInput(
                "an index must be a readable safetensors file", got=f"{path} ({error})", repair="remove it"
            ) from None
        raise InvalidInput(
            "an index must be of this model and these documents, in their order",
            got=f"{path}, made from another {' and another '.join(stale)}",
            repair="remove it, and it is made again",
        )


def _origin(towers: VectorTarget, texts: list[str]) -> dict[str, str]:
    return {"model": towers.sha256, "list of documents": list_hash(texts), "--max-length": str(towers.max_length)}


def index(towers: VectorTarget, texts: list[str], *, file: Path | None = None) -> DocumentIndex:
    """The index in `file`; it is made, and kept there, where there is none.

    Raises:
        InvalidInput: the file is stale.
    """
    if file is not None and file.exists():
        return DocumentIndex.load(file, towers, texts)
    made = DocumentIndex.build(towers, texts)
    if file is not None:
        made.save(file)
    return made


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
    towers = _open(searcher, static, [*queries, *documents], max_length=max_length, threads=threads)
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
        "directory": str(searcher) if searcher is not None else f"{STATIC} of {static}",
        "model_sha256": towers.sha256,
        "task": task.name,
        "split": split,
        "protocol": task.protocol,
        "data": data_parent(data, task),
        "max_length": towers.max_length,
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
                if isinstance(towers, Towers)
                else {}
            ),
        },
        "latency": _latency(towers, list(positives), list(documents)[:TIMED_DOCUMENTS], vectors[:TIMED_DOCUMENTS]),
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


def _latency(towers: VectorTarget, queries: list[str], documents: list[str], vectors: torch.Tensor) -> dict[str, Any]:
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
