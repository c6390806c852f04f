"""The floor stage: linear classifiers of words and of static embeddings, or of what is seen of each word where it has a tag; fitted, chosen on
validation rows, scored and timed."""

import time
from pathlib import Path
from typing import Any

import numpy
from threadpoolctl import threadpool_limits

from hf_albert_plus.checkpoints import has_tokenizer
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.answers import first_metric, label_array, predictions, rule_for
from hf_albert_plus.eval.floor.floor_classifier import KINDS, FloorClassifier, Kind, features_of, parted
from hf_albert_plus.eval.floor.frequent_tags import frequent_tags
from hf_albert_plus.eval.floor.linear import Linear, fits
from hf_albert_plus.eval.measured_documents import FLOOR, ScoredRow, ScoredRun, to_json
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.predictions import as_numbers
from hf_albert_plus.eval.run_details import details_of, probabilities_of, rounded_logits
from hf_albert_plus.eval.scored_rows import pace_of, scored_row
from hf_albert_plus.eval.scoring import SCORES, scores_document
from hf_albert_plus.machine import FORMAT
from hf_albert_plus.records.files import file_sha256, write_json
from hf_albert_plus.records.progress import track
from hf_albert_plus.records.record import Record, parent
from hf_albert_plus.records.stage import run_stage
from hf_albert_plus.tasks.splits import data_parent, evaluated_splits, load_split
from hf_albert_plus.tasks.task import Task, check_no_spans

# Strengths that are tried: TF-IDF has few large entries, static embeddings many small ones.
_STRENGTHS: dict[Kind, tuple[float, ...]] = {
    "tf-idf": (1.0, 10.0, 100.0),
    "static": (0.01, 0.1, 1.0, 10.0),
    "word-features": (1.0, 10.0),
}
_ROUNDS = 3
# What the seconds of a floor are of: it has no batches.
_PACE = "text to answer"


def floor(*, data: str, task: Task, output: Path, teacher: str | None = None, threads: int | None = None) -> Record:
    """Builds, scores and times the floor of a task: `tf-idf/`, `static/` where there is a teacher, and `scores.json`; of a task of tags
    `word-features/` and `frequent-tag/`.

    Args:
        data: a task's data, with training and evaluation splits.
        teacher: directory or Hub id of the encoder that static embeddings of texts are made of; none of tags.
        threads: that products are computed with; None for one a core.

    Raises:
        InvalidInput: data without training rows, or a teacher without a tokenizer.
    """
    if teacher is not None and Path(teacher).is_dir() and not has_tokenizer(Path(teacher)):
        raise InvalidInput("--teacher must have its tokenizer", got=teacher, repair="save the tokenizer into it")
    check_no_spans(task, what="floor", repair="leave it out: the floor has classifiers of texts and of words")
    kinds = _kinds(task, teacher)

    def work(directory: Path) -> dict[str, Any]:
        train = load_split(data, task, "train")
        splits = {name: load_split(data, task, split) for name, split in evaluated_splits(data, task).items()}
        rows = []
        for kind in kinds:
            _build(kind, train, next(iter(splits.values())), task, teacher).save(directory / kind)
            opened = FloorClassifier.open(directory / kind)
            rows += [
                _scored(opened, directory / kind, output / kind, split, task, name) for name, split in splits.items()
            ]
        references = {name: label_array(split["label"], task) for name, split in splits.items()}
        document = scores_document(task, data, references, rows, max_length=None, threads=threads)
        write_json(directory / SCORES, to_json(document))
        return {f"{row.label} {row.task}": row.metrics for row in rows}

    parents = {"data": data_parent(data, task)}
    if teacher is not None and "static" in kinds:
        parents["teacher"] = parent(teacher)
    settings = {**task.settings, "measure": task.metrics[0], "kinds": kinds, "threads": threads, "format": FORMAT}
    with threadpool_limits(limits=threads):
        return run_stage("floor", output, settings=settings, parents=parents, work=work)


def _kinds(task: Task, teacher: str | None) -> list[Kind]:
    if task.has_tags:
        return ["word-features", "frequent-tag"]
    return ["tf-idf"] if teacher is None else ["tf-idf", "static"]


def _build(kind: Kind, train: Any, validation: Any, task: Task, teacher: str | None) -> FloorClassifier:
    """The classifier of one kind whose strength scores best on validation rows, the weaker of equals."""
    texts, texts_to_judge = _texts(train, task), _texts(validation, task)
    every_text = [text for column in texts for text in column]
    options = {"teacher": teacher} if kind == "static" else {}
    vectors = KINDS[kind].of(every_text, **options)
    features, features_to_judge = features_of(vectors, texts), features_of(vectors, texts_to_judge)
    labels = numpy.concatenate(train["label"][:]) if task.has_tags else numpy.asarray(train["label"])

    def worth(linear: Linear) -> float:
        return first_metric(parted(linear.logits(features_to_judge), texts_to_judge), validation["label"], task)

    if kind == "frequent-tag":
        best = frequent_tags(features, labels, tag_count=task.num_labels)
    else:
        strengths = _STRENGTHS[kind]
        tried = fits(features, labels, task, strengths=strengths)
        best = max(track(tried, total=len(strengths), description=f"fit {kind}"), key=worth)
    return FloorClassifier(kind, vectors, best, task.columns, tuple(task.labels))


def _texts(rows: Any, task: Task) -> list[list[Any]]:
    """The texts of each column, or the lists of words."""
    return [list(rows[column]) for column in task.columns]


def _scored(
    classifier: FloorClassifier, directory: Path, place: Path, split: Any, task: Task, row_name: str
) -> ScoredRow:
    """Its row on a split.

    Args:
        place: the directory's final name.
    """
    texts, labels = _texts(split, task), label_array(split["label"], task)
    seconds = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        logits = classifier.logits(texts)
        seconds.append(time.perf_counter() - start)
    rule = rule_for(task)
    predicted, kept = predictions(logits, task, rule=rule), rounded_logits(logits, task)
    taken = float(numpy.median(seconds))
    run = ScoredRun(
        directory=str(place),
        seed=None,
        metrics=compute_metrics(predicted, labels, task, logits=kept),
        seconds=round(taken, 5),
        throughput=[pace_of(_PACE, seconds, labels, task, decimals=5)],
        model_sha256=file_sha256(directory / "model.safetensors"),
        architecture_sha256="",
        file_bytes=sum(file.stat().st_size for file in directory.iterdir()),
        predictions=as_numbers(predicted, task),
        logits=None if kept is None else kept.tolist(),
        **details_of(predicted, labels, task, probabilities=probabilities_of(logits, task, rule=rule)),
    )
    return scored_row([run], labels, task, row_name, label=classifier.kind, name=classifier.kind, runtime=FLOOR)
