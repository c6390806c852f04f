"""Scores of targets, or of files of predictions, on GLUE tasks: a stage, and the functions that it is made of."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
from transformers import PreTrainedTokenizerBase

from hf_albert_plus.checkpoints import check_label_order
from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.runtime_files import model_hash
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.answers import first_metric, label_array, predictions, rule_for
from hf_albert_plus.eval.batched_inference import Batching, Outputs, parse_batching, predict, timed_outputs
from hf_albert_plus.eval.measured_documents import (
    PREDICTIONS,
    Environment,
    ScoredRow,
    ScoredRun,
    Scores,
    to_json,
)
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.predictions import as_numbers, read_predictions
from hf_albert_plus.eval.run_details import details_of, probabilities_of, rounded_logits
from hf_albert_plus.eval.scored_rows import architecture_hash, pace_of, scored_row
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import Target, labels_of, target_parents
from hf_albert_plus.eval.vector_scores import check_vector_task, static_rows, vector_run
from hf_albert_plus.eval.vector_targets import STATIC, is_encoder
from hf_albert_plus.eval.window_counts import WindowCount
from hf_albert_plus.heads import answers, architecture_of
from hf_albert_plus.machine import FORMAT
from hf_albert_plus.model_inputs import longest_input
from hf_albert_plus.records.files import file_sha256, write_json
from hf_albert_plus.records.record import Parent, Record, file_parent, parent, training_record
from hf_albert_plus.records.stage import run_stage
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.inspection import say_unread
from hf_albert_plus.tasks.long_rows import numbers_of
from hf_albert_plus.tasks.rows import encode, fits_positions, load_tokenizer
from hf_albert_plus.tasks.splits import data_parent, evaluated_splits, load_split
from hf_albert_plus.tasks.task import Task
from hf_albert_plus.tasks.task_file import describe_task

SCORES = "scores.json"
# Suffix of a head -> what a target with it is.
_TARGETS = {
    "ForSequenceClassification": "a sequence classifier",
    "ForTokenClassification": "a token classifier",
    "ForQuestionAnswering": "a model of spans, which answers questions",
}


def score(
    targets: list[Target],
    *,
    data: str,
    task: Task,
    output: Path,
    settings: EvalSettings | None = None,
    threads: int | None = None,
    static: str | None = None,
) -> Record:
    """The eval stage: writes `scores.json` and a record of it, or finds them written.

    Args:
        targets: those with one label are runs of one row.
        data: folder or Hub id in the layout of nyu-mll/glue.
        static: as `score_targets` has it.
    """
    settings = settings or EvalSettings()
    facts: dict[str, Any] = {
        "max_length": settings.max_length,
        "measure": task.metrics[0],
        "targets": labels_of(targets),
    }
    for name, usual in (("batching", EvalSettings.batching), ("rounds", EvalSettings.rounds)):
        if getattr(settings, name) != usual:
            facts[name] = getattr(settings, name)
    if not settings.every_split and len(evaluated_splits(data, task)) > 1:
        facts["every_split"] = False
    parents = {**target_parents(targets), "data": data_parent(data, task)}
    return _score_stage(
        output,
        lambda: score_targets(targets, data=data, task=task, settings=settings, threads=threads, static=static),
        settings={**task.settings, **facts},
        parents=parents if static is None else {**parents, STATIC: parent(static)},
    )


def _splits(data: str, task: Task, settings: EvalSettings) -> dict[str, str]:
    """Report row -> split, of those that are to be scored."""
    splits = evaluated_splits(data, task)
    return splits if settings.every_split else dict(list(splits.items())[:1])


def score_files(files: list[tuple[str, Path]], *, data: str, task: Task, output: Path) -> Record:
    """The eval stage of prediction files, as `score` of targets.

    Args:
        files: (report row, file) pairs.
    """
    parents = {f"{row_name} {path.stem}": file_parent(path) for row_name, path in files}
    return _score_stage(
        output,
        lambda: score_predictions(files, data=data, task=task),
        settings={**task.settings, "max_length": None, "measure": task.metrics[0]},
        parents={**parents, "data": data_parent(data, task)},
    )


def _score_stage(
    output: Path, measure: Callable[[], Scores], *, settings: dict[str, Any], parents: dict[str, Parent]
) -> Record:
    def work(directory: Path) -> dict[str, Any]:
        scores = measure()
        write_json(directory / SCORES, to_json(scores))
        return {f"{row.label} {row.task}": row.metrics for row in scores.rows}

    return run_stage("eval", output, settings={**settings, "format": FORMAT}, parents=parents, work=work)


def score_targets(
    targets: list[Target],
    *,
    data: str,
    task: Task,
    settings: EvalSettings | None = None,
    threads: int | None = None,
    static: str | None = None,
) -> Scores:
    """Scores every target on every evaluation split of a task: classifiers by what they predict, and sentence encoders, on pairs with a
    number, by the cosine of the vectors of the two.

    Args:
        targets: those with one label are runs of one row, such as the same training with other seeds.
        static: directory or Hub id of an encoder whose tokens' static vectors are scored too.
        settings: the first of its ways of batching gives the predictions that are scored; all are timed, in turns.

    Returns:
        A row for each label and split with its metrics (the median of its runs), their bootstrap intervals, and its
        runs: predictions, metrics, seed, the model's hash, and the median seconds that inference took, tokenisation left out and
        padding included; the layers that a row of text ran in the mean, where there are exits. The labels stand beside the rows.
    """
    settings = settings or EvalSettings()
    ways = tuple(dict.fromkeys(map(parse_batching, settings.batching)))
    has_pairs = len(task.columns) == 2
    encoders = [target for target in targets if has_pairs and is_encoder(target.directory)]
    for what in [*(str(target.directory) for target in encoders), *([] if static is None else [static])]:
        check_vector_task(task, what=what)
    _check_classifiers([each for each in targets if each not in encoders], task, max_length=settings.max_length)
    splits = {row_name: load_split(data, task, split) for row_name, split in _splits(data, task, settings).items()}
    references = {row_name: label_array(split["label"], task) for row_name, split in splits.items()}
    runs: dict[tuple[str, str], list[ScoredRun]] = {}
    for target in targets:
        if target in encoders:
            for row_name, split in splits.items():
                run = vector_run(target, split, references[row_name], task, settings, threads=threads)
                runs.setdefault((target.label, row_name), []).append(run)
            continue
        engines = {way: way.load(target, threads=threads) for way in ways}
        engine, _ = engines[ways[0]]
        check_labels(engine, task)
        tokenizer = load_tokenizer(target.directory, engine.config)
        for row_name, split in splits.items():
            encoded = encode(split, task, tokenizer, max_length=settings.max_length)
            say_unread(encoded, task, max_length=settings.max_length)
            what = f"{target.label} {row_name}"
            outputs, seconds = timed_outputs(engines, encoded, tokenizer, rounds=settings.rounds, what=what)
            run = _scored_run(target, engine, outputs, seconds, references[row_name], task)
            run = replace(run, windows=WindowCount.of(numbers_of(encoded)))
            runs.setdefault((target.label, row_name), []).append(run)
    named = {target.label: target for target in reversed(targets)}
    rows = [
        scored_row(of_label, references[row_name], task, row_name, label=label, name=named[label].name, runtime=named[label].runtime)
        for (label, row_name), of_label in runs.items()
    ]  # fmt: skip
    if static is not None:
        rows += static_rows(static, splits, task, settings)
    return scores_document(task, data, references, rows, max_length=settings.max_length, threads=threads)


def _check_classifiers(targets: list[Target], task: Task, *, max_length: int) -> None:
    """Refuses targets that are no classifiers of a task, before any is opened."""
    configs = {target.directory: load_config(target.directory, option="a target") for target in targets}
    for directory, config in configs.items():
        architecture = architecture_of(config)
        if not answers(config, task):
            raise InvalidInput(
                f"a target must be {_TARGETS[task.head]}",
                got=f"{architecture} in {directory}",
                repair="fine-tune it first (albert-plus finetune)",
            )
        fits_positions(config, max_length)
        check_label_order(config, task, option=str(directory))


def _scored_run(
    target: Target,
    engine: Engine,
    outputs: Outputs,
    seconds: dict[str, list[float]],
    labels: numpy.ndarray,
    task: Task,
) -> ScoredRun:
    """The run of a target, from its outputs and the seconds of each way of batching, the first way's outputs being those."""
    rule = rule_for(task, engine.config)
    predicted = predictions(outputs.logits, task, rule=rule)
    logits = rounded_logits(outputs.logits, task)
    return ScoredRun(
        directory=str(target.directory),
        seed=training_record(target.directory).get("settings", {}).get("seed"),
        metrics=compute_metrics(predicted, labels, task, logits=logits),
        seconds=round(float(numpy.median(next(iter(seconds.values())))), 3),
        throughput=[pace_of(way, taken, labels, task) for way, taken in seconds.items()],
        model_sha256=model_hash(target.directory, target.runtime),
        architecture_sha256=architecture_hash(engine.config),
        predictions=as_numbers(predicted, task),
        logits=None if logits is None else logits.tolist(),
        **details_of(predicted, labels, task, probabilities=probabilities_of(outputs.logits, task, rule=rule)),
        average_layers=None if outputs.layers is None else round(float(outputs.layers.mean()), 4),
    )


def score_predictions(files: list[tuple[str, Path]], *, data: str, task: Task) -> Scores:
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
        labels = label_array(load_split(data, task, task.rows[row_name])["label"], task)
        references[row_name] = labels
        predicted = read_predictions(path, task)
        run = ScoredRun(
            directory=str(path),
            seed=None,
            metrics=compute_metrics(predicted, labels, task),
            model_sha256=file_sha256(path),
            architecture_sha256="",
            predictions=as_numbers(predicted, task),
            **details_of(predicted, labels, task),
        )
        rows.append(scored_row([run], labels, task, row_name, label=path.stem, name=path.stem, runtime=PREDICTIONS))
    return scores_document(task, data, references, rows, max_length=None, threads=None)


def scores_document(
    task: Task,
    data: str,
    references: dict[str, numpy.ndarray],
    rows: list[ScoredRow],
    *,
    max_length: int | None,
    threads: int | None,
) -> Scores:
    return Scores(
        task=task.name,
        own_task=None if task.benchmark else describe_task(task),
        protocol=task.protocol,
        data=data_parent(data, task),
        max_length=max_length,
        references={row_name: as_numbers(labels, task) for row_name, labels in references.items()},
        rows=rows,
        environment=Environment.here(threads=threads),
    )


def scorer_for(task: str | Task, data: str, *, max_length: int = 128) -> Callable[[Engine], float]:
    """What scores an engine on a task's validation split, by the task's first metric: for `export(…, scorer=…)`.

    Args:
        task: a task, or the name of one of GLUE's.
        data: folder or Hub id in the layout of nyu-mll/glue.
        max_length: longest input in tokens; fewer where a model has fewer positions.
    """
    chosen = get_task(task)
    EvalSettings(max_length=max_length)

    def score_one(engine: Engine) -> float:
        longest = min(max_length, longest_input(engine.config))
        return score_engine(engine, data=data, task=chosen, max_length=longest)

    return score_one


def logits_scorer_for(task: str | Task, model: str | Path | None = None) -> Callable[[Any, list[Any]], float]:
    """What scores logits in torch by a task's first metric, as `first_metric` does: for `export(…, logits_scorer=…)` and
    `calibrate_exits(…, score=…)`.

    Args:
        model: directory or Hub id of the classifier, whose thresholds decide which of several labels are given; without it each is a half.
    """
    chosen = get_task(task)
    config = load_config(model, option="a model") if model is not None and chosen.has_several_labels else None
    rule = rule_for(chosen, config)
    return lambda logits, labels: first_metric(logits.numpy(), labels, chosen, rule=rule)


def score_engine(engine: Engine, *, data: str, task: Task, max_length: int = 128) -> float:
    """A task's score on its first evaluation split, as `first_metric` has it.

    Raises:
        InvalidInput: the engine is no classifier of the task.
    """
    tokenizer = tokenizer_for(engine, task, max_length=max_length)
    rows = load_split(data, task, task.judging_split)
    encoded = encode(rows, task, tokenizer, max_length=max_length)
    logits = predict(engine, encoded.to_list(), tokenizer, Batching().of(encoded["length"]), description="score")
    return first_metric(logits, rows["label"], task, rule=rule_for(task, engine.config))


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
    if not answers(engine.config, task) or engine.config.num_labels != task.num_labels:
        raise InvalidInput(
            f"a target for {task.name} must have {task.num_labels} labels",
            got=f"{architecture} with {engine.config.num_labels} in {engine.file}",
            repair="score it on the task it was fine-tuned on",
        )
