"""Scoring targets, or files of predictions, on GLUE tasks."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy
from transformers import PreTrainedTokenizerBase

from hf_albert_plus.checkpoints import check_label_order, load_config
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.bootstrap import Sample, intervals
from hf_albert_plus.eval.environment import FORMAT, environment
from hf_albert_plus.eval.inference import Batching, predict, timed_predictions
from hf_albert_plus.eval.metrics import compute_metrics, first_metric, predictions
from hf_albert_plus.eval.predictions import read_predictions, to_json
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.export.engines import Engine, model_hash
from hf_albert_plus.files import file_sha256
from hf_albert_plus.finetune import fits_positions
from hf_albert_plus.glue import Task, data_parent, encode, load_split, load_tokenizer
from hf_albert_plus.heads import architecture_of
from hf_albert_plus.records import training_record


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
        targets: those with one label are runs of one row, such as the same training with other seeds.
        batching: ways to make batches; the first one's predictions are scored, all are timed, in turns.
        rounds: how often each is timed.

    Returns:
        A JSON-ready document: a row for each label and split with its metrics in points (the median of its runs), their
        bootstrap intervals, and its runs: predictions, metrics, seed, the model's hash, and the median seconds that
        inference took, tokenisation left out and padding included; the layers that a row of text ran in the mean, where there are
        exits. The labels stand beside the rows.
    """
    EvalSettings(max_length=max_length, rounds=rounds)
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
    splits = {row_name: load_split(data, task, split) for row_name, split in task.rows.items()}
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for target in targets:
        engines = {way: way.load(target, threads=threads) for way in dict.fromkeys(batching)}
        engine = engines[batching[0]][0]
        check_labels(engine, task)
        tokenizer = load_tokenizer(target.directory, engine.config)
        for row_name, split in splits.items():
            encoded = encode(split, task, tokenizer, max_length=max_length)
            what = f"{target.label} {row_name}"
            answers, samples = timed_predictions(engines, encoded, tokenizer, rounds=rounds, what=what)
            predicted = predictions(answers.logits, task)
            run = {
                "directory": str(target.directory),
                "seed": training_record(target.directory).get("settings", {}).get("seed"),
                "metrics": compute_metrics(predicted, numpy.asarray(encoded["labels"]), task),
                "seconds": round(float(numpy.median(samples[str(batching[0])])), 3),
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
                "predictions": to_json(predicted, task),
                **({} if answers.layers is None else {"average_layers": round(float(answers.layers.mean()), 4)}),
            }
            runs.setdefault((target.label, row_name), []).append(run)
    named = {target.label: target for target in reversed(targets)}
    references = {row_name: numpy.asarray(split["label"]) for row_name, split in splits.items()}
    rows = [
        {
            "label": label,
            "name": named[label].name,
            "runtime": named[label].runtime,
            **_summary(found, references[row_name], task, row_name),
        }
        for (label, row_name), found in runs.items()
    ]
    return _document(task, data, references, rows, max_length=max_length, threads=threads)


def score_predictions(files: list[tuple[str, Path]], *, data: str, task: Task) -> dict[str, Any]:
    """Scores prediction files (see `read_predictions`) as `score_targets` does models.

    Args:
        files: (report row, file) pairs; the report rows of MNLI are `mnli` and `mnli-mm`.
    """
    rows, references = [], {}
    for row_name, path in files:
        if row_name not in task.rows:
            raise InvalidInput(
                f"--predictions must name a row of {task.name}",
                got=repr(row_name),
                repair=f"use {' or '.join(f'{row}=FILE' for row in task.rows)}",
            )
        labels = numpy.asarray(load_split(data, task, task.rows[row_name])["label"])
        references[row_name] = labels
        predicted = read_predictions(path, task)
        run = {
            "directory": str(path),
            "seed": None,
            "metrics": compute_metrics(predicted, labels, task),
            "model_sha256": file_sha256(path),
            "architecture_sha256": "",
            "predictions": to_json(predicted, task),
        }
        named = {"label": path.stem, "name": path.stem, "runtime": "predictions"}
        rows.append({**named, **_summary([run], labels, task, row_name)})
    return _document(task, data, references, rows, max_length=None, threads=None)


def _summary(runs: list[dict[str, Any]], labels: numpy.ndarray, task: Task, row_name: str) -> dict[str, Any]:
    """A row's figures: the median, the range and the interval of each metric over its runs."""
    values = {name: [run["metrics"][name] for run in runs] for name in task.metrics}
    defined = {name: None not in found for name, found in values.items()}
    split = task.rows[row_name]
    return {
        "task": row_name,
        "split": split,
        "examples": len(labels),
        "glue_examples": task.sizes[split],
        "metrics": {name: float(numpy.median(found)) if defined[name] else None for name, found in values.items()},
        "spread": {name: [min(found), max(found)] if defined[name] else None for name, found in values.items()},
        "intervals": intervals(sample(runs, labels), task),
        "runs": runs,
    }


def sample(runs: list[dict[str, Any]], labels: Any) -> Sample:
    """The predictions of a row's runs, for a bootstrap."""
    return Sample(numpy.array([run["predictions"] for run in runs]), numpy.asarray(labels))


def _document(
    task: Task,
    data: str,
    references: dict[str, numpy.ndarray],
    rows: list[dict[str, Any]],
    *,
    max_length: int | None,
    threads: int | None,
) -> dict[str, Any]:
    return {
        "kind": "scores",
        "format": FORMAT,
        "task": task.name,
        "protocol": task.protocol,
        "data": data_parent(data, task),
        "max_length": max_length,
        "references": {row_name: to_json(labels, task) for row_name, labels in references.items()},
        "rows": rows,
        "environment": environment(threads=threads),
    }


def score_engine(engine: Engine, *, data: str, task: Task, max_length: int = 128) -> float:
    """Points of a task's first metric on its first evaluation split, 0 where it is not defined.

    Raises:
        InvalidInput: the engine is no classifier of the task.
    """
    tokenizer = tokenizer_for(engine, task, max_length=max_length)
    encoded = encode(load_split(data, task, next(iter(task.rows.values()))), task, tokenizer, max_length=max_length)
    logits = predict(engine, encoded.to_list(), tokenizer, Batching().of(encoded["length"]), description="score")
    return first_metric(logits, encoded["labels"], task)


def tokenizer_for(engine: Engine, task: Task, *, max_length: int) -> PreTrainedTokenizerBase:
    """An engine's tokenizer, once it is sure to be a classifier of a task.

    Raises:
        InvalidInput: other labels, or in another order; or fewer positions than `max_length`.
    """
    check_labels(engine, task)
    check_label_order(engine.config, task, option=str(engine.directory))
    fits_positions(engine.config, max_length)
    return load_tokenizer(engine.directory, engine.config)


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


__all__ = [
    "architecture_hash",
    "check_labels",
    "sample",
    "score_engine",
    "score_predictions",
    "score_targets",
    "tokenizer_for",
]
