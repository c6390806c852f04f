"""The stage of batch scoring: it plans, has a model answer what is missing, and says in a record what was done."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..config_files import load_config
from ..engines.classifier_config import (
    answer_rule_of,
    check_gives_labels,
    check_label_names,
    classifier_length,
    long_texts_of,
)
from ..errors import InvalidInput, StageConflict
from ..records.files import sync_tree
from ..records.outputs import OutputLock, check_directory, remove, take_directory
from ..records.progress import bar
from ..records.record import RECORD, Identity, Record, parent, read_record, record_run
from ..serving.repository import ServedModel, scan
from ..tasks.rows import load_tokenizer
from .answer_columns import TAG_COLUMNS
from .columns import kept_schema
from .distribution import WorkerPool, cluster, score_parts
from .part_files import Tally, check_part, tally_of
from .plan import Plan, PlannedPart, RunIdentity, check_same, make_plan, read_plan
from .settings import ScoreSettings
from .sources import find_sources
from .worker import Job

PLAN = "plan.json"
# What a classifier may call its columns, whatever its kind.
_OF_LABELS = ("label", "score", "scores", "labels", "label_scores", "logits")


def begun(output: Path) -> Plan | None:
    """The plan of the run that is there, if any.

    Raises:
        InvalidInput: something else is there.
    """
    if (output / PLAN).is_file():
        return read_plan(output / PLAN)
    if output.exists() and (not output.is_dir() or any(path.name[0] != "." for path in output.iterdir())):
        raise InvalidInput(
            "--output must be new, empty, or begun by this command",
            got=f"{output}, which holds something else",
            repair="choose another --output",
        )
    return None


def take_up(plan: Plan, folder: Path, *, old: Plan | None, tell: Callable[[str], None]) -> list[PlannedPart]:
    """Writes a plan, and removes what is none of its parts: halves, and those of files that have changed.

    Args:
        folder: of the parts; the plan lies beside it.

    Returns:
        The parts that are missing.
    """
    output = folder.parent
    take_directory(output, option="--output")
    if old is None or old.sources != plan.sources:
        # Before anything else is there: a run that was killed is known by its plan.
        plan.write(output / PLAN)
    take_directory(folder, option="--output")
    if old is not None:
        for source in set(plan.sources) - set(old.sources):
            tell(f"{source.path} has changed: it is scored anew")
    parts = list(plan.parts())
    unwanted = {path.name for path in folder.iterdir()} - {part.name for part in parts}
    for name in unwanted:
        if name.lstrip(".").startswith("part-"):
            remove(folder / name)
    return [part for part in parts if not _is_done(folder / part.name, tell)]


def _is_done(file: Path, tell: Callable[[str], None]) -> bool:
    """Whether a part is there, and is what was written; a damaged one is removed."""
    if not os.path.lexists(file):
        return False
    try:
        check_part(file)
    except InvalidInput as damage:
        tell(str(damage))
        remove(file)
        return False
    return True


@dataclass(frozen=True)
class RunKind:
    """What a run makes of the rows.

    Attributes:
        stage: what its record and its bar call it.
        parts: folder of the output that the parts lie in.
    """

    stage: str
    parts: str


SCORE = RunKind("score", "scores")


@dataclass(frozen=True)
class RunResult:
    """What came out of a run, as its record says it beside the facts of the model.

    Attributes:
        rows: rows of all parts.
        tokens: tokens of all texts, after cutting.
        truncated: texts that were cut.
        files: inputs.
        rows_of_this_run: rows that earlier runs had left.
        sentences_per_s: pace of this run; None where it answered nothing.
    """

    rows: int
    tokens: int
    truncated: int
    files: int
    parts: int
    rows_of_this_run: int
    sentences_per_s: float | None


def score(
    inputs: Sequence[str],
    *,
    engine: Path,
    runtime: str | None = None,
    output: Path,
    settings: ScoreSettings,
    pool: WorkerPool,
    tell: Callable[[str], None] = print,
) -> Record:
    """Scores every row of some files, each into one row of Parquet.

    Run again after it was stopped or killed, it scores what is missing; a file that has changed in the meantime is scored anew.

    Args:
        inputs: paths and patterns.
        runtime: of the engine; by default int8 where there is such an export, then int8 with exits, fp32, torch.
        output: a directory for it alone. `scores/` holds the rows, its files in the order of the inputs.

    Raises:
        InvalidInput: nothing to score or nothing to score it with, a row that is no text, or a run of something else in `output`.
        StageConflict: another process is writing there.
    """
    check_directory(output, option="--output")
    served = one_model(engine, runtime)
    config = load_config(served.directory, option="--engine")
    check_gives_labels(config, served.directory)
    load_tokenizer(served.directory, config)
    check_label_names(config, served.directory)
    rule = answer_rule_of(config)
    if rule.has_spans:
        raise InvalidInput(
            "score is for classifiers of texts and of words",
            got=f"a model of spans in {served.directory}, which answers questions",
            repair="ask it from Python with TextClassifier(DIR, ENGINE, …).ask(…), or serve it: albert-plus serve",
        )
    if rule.is_by_token:
        check_single_texts(settings, model="a tagger, which answers words")
    settings.check_kept(own=[*_OF_LABELS, *(TAG_COLUMNS if rule.is_by_token else ())])
    max_length = classifier_length(config, served.directory, max_length=settings.max_length)
    of_model = {"labels": list(rule.labels), "problem_type": rule.problem_type, "thresholds": list(rule.thresholds)}
    settings = replace(settings, max_length=max_length)
    return run_over_files(
        inputs, SCORE, served, output=output, settings=settings, pool=pool, of_model=of_model, tell=tell
    )


def run_over_files(
    inputs: Sequence[str],
    kind: RunKind,
    served: ServedModel,
    *,
    output: Path,
    settings: ScoreSettings,
    pool: WorkerPool,
    of_model: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Record:
    """Has a model that was checked answer every row of some files, and goes on with what an earlier run has left.

    Args:
        settings: with the length that the model takes.
        of_model: what the record says of the model's answers.

    Raises:
        InvalidInput: nothing to read, a row that is no text, or a run of something else in `output`.
        StageConflict: another process is writing there.
    """
    output = output.absolute()  # pyarrow takes a "~" that a path begins with for somebody's home
    sources = find_sources(inputs, output=output)
    kept = kept_schema(sources, settings)
    long = long_texts_of(served.directory)
    said = settings.describe() | ({} if long.is_cut else {"long": asdict(long)})
    identity = RunIdentity(settings={**said, "runtime": served.runtime}, engine=parent(served.directory))
    old = begun(output)
    if old is not None:
        check_same(old, identity=identity, sources=sources, output=output)
    folder = output / kind.parts
    with OutputLock(output, option="--output"):
        plan = make_plan(sources, settings, identity=identity, old=old)
        missing = take_up(plan, folder, old=old, tell=tell)
        if not missing and (output / RECORD).is_file():
            return read_record(output)
        (output / RECORD).unlink(missing_ok=True)
        start = time.perf_counter()
        job = Job(str(served.directory), served.runtime, str(folder), settings, kept)
        working = _answer_parts(missing, job, pool, kind, rows=plan.rows) if missing else 0.0
        answered = sum(tally_of(folder / part.name).rows for part in missing)
        result = RunResult(
            **asdict(_tally_of_all(folder, plan)),
            files=len(plan.sources),
            parts=sum(map(len, plan.ranges)),
            rows_of_this_run=answered,
            sentences_per_s=round(answered / working, 1) if answered else None,
        )
        return _record(output, kind, plan, {**asdict(result), **of_model}, seconds=time.perf_counter() - start)


def check_single_texts(settings: ScoreSettings, *, model: str) -> None:
    """Refuses what only a classifier of texts can do.

    Args:
        model: what there is instead, for the error.

    Raises:
        InvalidInput: pairs, or a column of logits.
    """
    if settings.pair_column is not None or settings.logits:
        option = "--logits" if settings.logits else "--text-pair-column"
        raise InvalidInput(f"{option} is for classifiers of texts", got=model, repair="leave it out")


def one_model(engine: Path, runtime: str | None) -> ServedModel:
    """The model of `--engine`, its engine's file checked.

    Raises:
        InvalidInput: there is none, or several.
    """
    models = scan(engine, runtime=runtime)
    if [model.directory for model in models] != [engine.resolve()]:
        raise InvalidInput(
            "--engine must be one model",
            got=f"{engine}, which holds {len(models)}",
            repair=f"use --engine {models[0].directory}:{models[0].runtime}",
        )
    return models[0]


def _answer_parts(parts: Sequence[PlannedPart], job: Job, pool: WorkerPool, kind: RunKind, *, rows: int) -> float:
    """Has workers write parts under a bar over all rows.

    Returns:
        Seconds since the first worker had its model open.
    """
    missing = sum(part.range.rows for part in parts)
    first_start = float("inf")
    with (
        cluster(pool) as here,
        bar(total=rows, initial=rows - missing, description=kind.stage, unit_scale=True) as progress,
    ):
        for outcome in score_parts(iter(parts), job, here):
            first_start = min(first_start, time.perf_counter() - outcome.seconds)
            progress.update(outcome.rows)
        return time.perf_counter() - first_start


def _record(output: Path, kind: RunKind, plan: Plan, result: dict[str, Any], *, seconds: float) -> Record:
    inputs = [{"path": source.path, "bytes": source.size} for source in plan.sources]
    sync_tree(output)
    identity: Identity = {
        "stage": kind.stage,
        "settings": {**plan.identity["settings"], "inputs": inputs},
        "parents": {"engine": plan.identity["engine"]},
    }
    return record_run(output, identity, result=result, seconds=seconds)


def _tally_of_all(folder: Path, plan: Plan) -> Tally:
    return sum((_tally(part, folder / part.name) for part in plan.parts()), Tally())


def _tally(part: PlannedPart, file: Path) -> Tally:
    """What was counted in a part.

    Raises:
        StageConflict: the part lacks rows of its input.
    """
    tally = tally_of(file)
    # Blank lines of JSON are no rows.
    if tally.rows != part.range.rows and part.source.kind != "lines of JSON":
        raise StageConflict(f"{file} must have {part.range.rows} rows, got {tally.rows}; remove it and run again")
    return tally
