"""Scores of vectors on pairs of texts with a number: how the cosine of the two orders the pairs, without any training on them (STS)."""

import time
from typing import Any

import numpy

from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.runtime_files import model_hash
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.answers import label_array
from hf_albert_plus.eval.measured_documents import FLOOR, BatchingPace, ScoredRow, ScoredRun
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.predictions import as_numbers
from hf_albert_plus.eval.scored_rows import architecture_hash, scored_row
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.eval.vector_targets import STATIC, EncoderVectors, StaticVectors, VectorTarget
from hf_albert_plus.records.record import training_record
from hf_albert_plus.tasks.task import ERRORS, Task

# What the seconds of vectors are of, as each text is encoded once whatever pairs it is in.
_PACE = "text to vector"


def check_vector_task(task: Task, *, what: str) -> None:
    """Refuses a task whose labels the cosine of two vectors cannot say.

    Args:
        what: whose vectors.

    Raises:
        InvalidInput: a task without pairs or without numbers.
    """
    if not task.is_regression or len(task.columns) != 2:
        raise InvalidInput(
            "vectors are scored on pairs of texts with a number",
            got=f"{task.name} for {what}",
            repair="use --task stsb or pairs of your own with a number; search pairs that match with albert-plus retrieve; or fine-tune a "
            "classifier first (albert-plus finetune)",
        )


def vector_run(
    target: Target, split: Any, labels: numpy.ndarray, task: Task, settings: EvalSettings, *, threads: int | None
) -> ScoredRun:
    """What the vectors of a target say of a split's pairs."""
    vectors = EncoderVectors.open(target, max_length=settings.max_length, threads=threads)
    facts = {
        "directory": str(target.directory),
        "seed": training_record(target.directory).get("settings", {}).get("seed"),
        "architecture_sha256": architecture_hash(load_config(target.directory, option="a target")),
        "model_sha256": model_hash(target.directory, target.runtime),
    }
    return _run(vectors, split, labels, task, rounds=settings.rounds, what=target.label, facts=facts)


def static_rows(encoder: str, splits: dict[str, Any], task: Task, settings: EvalSettings) -> list[ScoredRow]:
    """The rows of the floor: static vectors of an encoder's tokens, weighted by how often the texts to score have them."""
    check_vector_task(task, what=f"the static vectors of {encoder}")
    texts = [text for split in splits.values() for column in task.columns for text in split[column]]
    vectors = StaticVectors.of(encoder, texts)
    facts = {
        "directory": encoder,
        "seed": None,
        "architecture_sha256": "",
        "model_sha256": vectors.sha256,
        "file_bytes": vectors.vectors.vectors_VD.nbytes,
    }
    rows = []
    for row_name, split in splits.items():
        labels = label_array(split["label"], task)
        run = _run(vectors, split, labels, task, rounds=settings.rounds, what=STATIC, facts=facts)
        rows.append(scored_row([run], labels, task, row_name, label=STATIC, name=STATIC, runtime=FLOOR))
    return rows


def _run(
    vectors: VectorTarget,
    split: Any,
    labels: numpy.ndarray,
    task: Task,
    *,
    rounds: int,
    what: str,
    facts: dict[str, Any],
) -> ScoredRun:
    """A run whose predictions are cosines. Errors in the unit of the numbers are not theirs, and stay undefined."""
    first, second = (list(split[column]) for column in task.columns)
    places = {text: place for place, text in enumerate(dict.fromkeys([*first, *second]))}
    seconds = []
    for number in range(rounds):
        begin = time.perf_counter()
        encoded = vectors.encode(list(places), description=what if number == 0 else None)
        seconds.append(time.perf_counter() - begin)
    cosines = vectors.cross(encoded[[places[text] for text in first]], encoded[[places[text] for text in second]])
    taken = float(numpy.median(seconds))
    metrics = compute_metrics(cosines, labels, task)
    return ScoredRun(
        metrics={name: None if name in ERRORS else value for name, value in metrics.items()},
        seconds=round(taken, 3),
        throughput=[
            BatchingPace(
                batching=_PACE,
                sentences_per_s=round(len(places) / taken, 1),
                seconds=[round(value, 4) for value in seconds],
            )
        ],
        predictions=as_numbers(cosines, task),
        **facts,
    )
