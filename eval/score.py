"""Scoring targets on GLUE tasks."""

import re
import time
from dataclasses import dataclass
from typing import Any

import numpy

from hf_albert_plus.checkpoints import check_label_order, load_config
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.environment import environment
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.export.batching import TOKEN_BUDGET, file_batches, pad_rows, run_batches, token_batches
from hf_albert_plus.export.engines import Engine, model_hash, physical_cores
from hf_albert_plus.export.runtimes import RUNTIMES
from hf_albert_plus.finetune import fits_positions
from hf_albert_plus.glue import Task, data_parent, encode, load_split, load_tokenizer
from hf_albert_plus.heads import architecture_of


@dataclass(frozen=True)
class Batching:
    """How rows of text become batches.

    Attributes:
        token_budget: tokens a batch, padding included, rows of similar length together; engines that can compute a
            batch on each core.
        file_order: batches of this many rows in the file's order instead, one at a time on all cores.
    """

    token_budget: int = TOKEN_BUDGET
    file_order: int | None = None

    def __str__(self) -> str:
        return f"length:{self.token_budget}" if self.file_order is None else f"file:{self.file_order}"

    def of(self, lengths: list[int]) -> list[list[int]]:
        if self.file_order is not None:
            return file_batches(len(lengths), size=self.file_order)
        return token_batches(lengths, budget=self.token_budget)

    def load(self, target: Target, *, threads: int | None) -> tuple[Engine, int]:
        """A target's engine, and how many batches it computes at a time."""
        cores = threads or physical_cores()
        if self.file_order is None and RUNTIMES[target.runtime].concurrent and cores > 1:
            return target.load(threads=1), cores
        return target.load(threads=cores), 1


def parse_batching(text: str) -> Batching:
    """`"length"`, `"length:512"` or `"file:32"` -> how to batch.

    Raises:
        InvalidInput: another form.
    """
    match = re.fullmatch(r"length(?::([1-9]\d*))?|file:([1-9]\d*)", text)
    if match is None:
        raise InvalidInput(
            "--batching must be length, length:TOKENS or file:ROWS", got=repr(text), repair="use --batching length"
        )
    if match[2]:
        return Batching(file_order=int(match[2]))
    return Batching(token_budget=int(match[1] or TOKEN_BUDGET))


def score_targets(
    targets: list[Target],
    *,
    data: str,
    task: Task,
    max_length: int = 128,
    batching: tuple[Batching, ...] = (Batching(),),
    rounds: int = 1,
    threads: int | None = None,
) -> dict[str, Any]:
    """Scores every target on every evaluation split of a task.

    Args:
        batching: ways to make batches; the first one's predictions are scored, all are timed, in turns.
        rounds: how often each is timed.

    Returns:
        A JSON-ready document: one row for each target and split with its metrics in points, examples, the model's
        hash, and the median seconds that inference took, tokenisation left out and padding included.
    """
    configs = {target.directory: load_config(target.directory, option="a target") for target in targets}
    for directory, config in configs.items():
        architecture = architecture_of(config)
        if not architecture.endswith("ForSequenceClassification"):
            raise InvalidInput(
                "a target must be a sequence classifier",
                got=f"{architecture} in {directory}",
                repair="fine-tune it first (albert-plus finetune)",
            )
        fits_positions(config, max_length)
        check_label_order(config, task, option=str(directory))
    rows = []
    for target in targets:
        engines = {way: way.load(target, threads=threads) for way in dict.fromkeys(batching)}
        engine = engines[batching[0]][0]
        check_labels(engine, task)
        tokenizer = load_tokenizer(target.directory, engine.config)
        for row_name, split in task.rows.items():
            encoded = encode(load_split(data, task, split), task, tokenizer, max_length=max_length)
            logits, samples = _timed(engines, encoded, tokenizer, rounds=rounds, what=f"{target.label} {row_name}")
            seconds = float(numpy.median(samples[str(batching[0])]))
            rows.append(
                {
                    "label": target.label,
                    "name": target.name,
                    "runtime": target.runtime,
                    "directory": str(target.directory),
                    "task": row_name,
                    "split": split,
                    "metrics": compute_metrics(logits, numpy.asarray(encoded["labels"]), task),
                    "examples": len(encoded),
                    "seconds": round(seconds, 3),
                    "throughput": [
                        {
                            "batching": way,
                            "sentences_per_s": round(len(encoded) / float(numpy.median(taken)), 1),
                            "seconds": [round(value, 4) for value in taken],
                        }
                        for way, taken in samples.items()
                    ],
                    "model_sha256": model_hash(target.directory, target.runtime),
                    "architecture_sha256": architecture_hash(engine),
                }
            )
    return {
        "kind": "scores",
        "task": task.name,
        "data": data_parent(data, task),
        "max_length": max_length,
        "rows": rows,
        "environment": environment(threads=threads),
    }


def score_engine(engine: Engine, *, data: str, task: Task, max_length: int = 128) -> float:
    """Points of a task's first metric on its first evaluation split, 0 where it is not defined.

    Raises:
        InvalidInput: the engine is no classifier of the task.
    """
    check_labels(engine, task)
    check_label_order(engine.config, task, option="DIR")
    fits_positions(engine.config, max_length)
    tokenizer = load_tokenizer(engine.directory, engine.config)
    encoded = encode(load_split(data, task, next(iter(task.rows.values()))), task, tokenizer, max_length=max_length)
    logits = predict(engine, encoded.to_list(), tokenizer, Batching().of(encoded["length"]), description="score")
    metrics = compute_metrics(logits, numpy.asarray(encoded["labels"]), task)
    return float(next(iter(metrics.values())) or 0.0)


def check_labels(engine: Engine, task: Task) -> None:
    """Refuses an engine with another number of labels than a task has."""
    architecture = architecture_of(engine.config)
    if not architecture.endswith("ForSequenceClassification") or engine.config.num_labels != task.num_labels:
        raise InvalidInput(
            f"a target for {task.name} must have {task.num_labels} labels",
            got=f"{architecture} with {engine.config.num_labels} in {engine.file}",
            repair="score it on the task it was fine-tuned on",
        )


def architecture_hash(engine: Engine) -> str:
    """Hash of the config fields that decide the computation, labels left out: the models of several tasks that share
    one are timed once."""
    import hashlib
    import json

    ignored = {
        "id2label",
        "label2id",
        "problem_type",
        "num_labels",
        "architectures",
        "_name_or_path",
        "transformers_version",
        "dtype",
    }
    fields = {name: value for name, value in engine.config.to_dict().items() if name not in ignored}
    return hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode()).hexdigest()


def _timed(
    engines: dict[Batching, tuple[Engine, int]], encoded: Any, tokenizer: Any, *, rounds: int, what: str
) -> tuple[numpy.ndarray, dict[str, list[float]]]:
    """Logits of the first way of batching, and each way's seconds in every round, the ways in turns."""
    plans, rows = {way: way.of(encoded["length"]) for way in engines}, encoded.to_list()
    ways = list(engines)
    samples: dict[str, list[float]] = {str(way): [] for way in ways}
    logits = numpy.empty(0)
    for turn in range(rounds):
        for way in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            engine, streams = engines[way]
            predict(engine, rows, tokenizer, plans[way][:2], streams=streams, description=f"warm up {what}")
            start = time.perf_counter()
            found = predict(engine, rows, tokenizer, plans[way], streams=streams, description=f"score {what} {way}")
            samples[str(way)].append(time.perf_counter() - start)
            logits = found if way is ways[0] else logits
    return logits, samples


def predict(
    engine: Engine,
    rows: list[dict[str, Any]],
    tokenizer: Any,
    batches: list[list[int]],
    *,
    streams: int = 1,
    description: str = "predict",
) -> numpy.ndarray:
    """Logits `[examples, num_labels]` in the order of the rows; rows in no batch get NaN."""
    outputs = run_batches(
        engine,
        rows,
        batches,
        pad=lambda some: pad_rows(some, tokenizer),
        streams=streams,
        description=description,
    )
    nothing = numpy.full(engine.config.num_labels or 1, numpy.nan, dtype=numpy.float32)
    return numpy.stack([output["logits"].numpy() if output else nothing for output in outputs])


__all__ = [
    "Batching",
    "architecture_hash",
    "check_labels",
    "parse_batching",
    "predict",
    "score_engine",
    "score_targets",
]
