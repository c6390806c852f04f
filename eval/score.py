"""Scoring targets on GLUE tasks."""

import time
from typing import Any

import numpy
import torch

from hf_albert_plus.checkpoints import check_label_order, load_config
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.environment import environment
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.export.engines import Engine, model_hash
from hf_albert_plus.finetune import fits_positions
from hf_albert_plus.glue import Task, data_parent, encode, load_split, load_tokenizer
from hf_albert_plus.progress import track


def score_targets(
    targets: list[Target],
    *,
    data: str,
    task: Task,
    max_length: int = 128,
    batch_size: int = 32,
    threads: int | None = None,
) -> dict[str, Any]:
    """Scores every target on every evaluation split of a task.

    Returns:
        A JSON-ready document: one row for each target and split with its metrics in points, examples, the model's
        hash and the seconds the inference took.
    """
    configs = {target.directory: load_config(target.directory, option="a target") for target in targets}
    for directory, config in configs.items():
        architecture = (config.architectures or ["no architecture in its config"])[0]
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
        engine = target.load(threads=threads)
        if engine.config.num_labels != task.num_labels:
            raise InvalidInput(
                f"a target for {task.name} must have {task.num_labels} labels",
                got=f"{engine.config.num_labels} in {target.directory}",
                repair="score it on the task it was fine-tuned on",
            )
        tokenizer = load_tokenizer(target.directory, engine.config)
        for row_name, split in task.rows.items():
            encoded = encode(load_split(data, task, split), task, tokenizer, max_length=max_length)
            start = time.perf_counter()
            logits = predict(
                engine, encoded, tokenizer, batch_size=batch_size, description=f"score {target.label} {row_name}"
            )
            seconds = time.perf_counter() - start
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


def predict(engine: Engine, encoded: Any, tokenizer: Any, *, batch_size: int, description: str) -> numpy.ndarray:
    """Logits `[examples, num_labels]` in the order of the rows, computed in batches of similar length."""
    rows = encoded.remove_columns([name for name in ("labels", "length") if name in encoded.column_names])
    order = numpy.argsort(encoded["length"], kind="stable")[::-1]
    chunks = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    logits = numpy.empty((len(encoded), engine.config.num_labels or 1), dtype=numpy.float32)
    for chunk in track(chunks, total=len(chunks), description=description):
        batch = tokenizer.pad(rows[[int(i) for i in chunk]], return_tensors="pt")
        tensors: dict[str, torch.Tensor] = dict(batch)
        logits[chunk] = numpy.asarray(engine(**tensors)["logits"])
    return logits


__all__ = ["architecture_hash", "predict", "score_targets"]
