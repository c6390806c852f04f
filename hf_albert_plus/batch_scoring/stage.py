"""The stage of batch scoring: it plans, scores what is missing, and says in a record what was done."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..config_files import load_config
from ..engines.classifier_config import answer_rule_of, check_label_names, length_taken
from ..errors import InvalidInput, StageConflict
from ..records.files import sync_tree
from ..records.outputs import OutputLock, check_directory, remove, take_directory
from ..records.progress import bar
from ..records.record import RECORD, Identity, Record, parent, read_record, record_run
from ..serving.repository import ServedModel, scan
from ..tasks.rows import load_tokenizer
from .columns import kept_schema
from .distribution import WorkerPool, cluster, score_parts
from .part_files import TAG_COLUMNS, Tally, check_part, tally_of
from .plan import Plan, PlannedPart, RunIdentity, check_same, make_plan, read_plan
from .settings import ScoreSettings
from .sources import find_sources
from .worker import Job

PLAN, PARTS = "plan.json", "scores"


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


def take_up(plan: Plan, output: Path, *, old: Plan | None, tell: Callable[[str], None]) -> list[PlannedPart]:
    """Writes a plan, and removes what is none of its parts: halves, and those of files that have changed.

    Returns:
        The parts that are missing.
    """
    folder = output / PARTS
    for directory in (output, folder):
        take_directory(directory, option="--output")
    if old is None or old.sources != plan.sources:
        plan.write(output / PLAN)
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
class ScoringResult:
    """What came out of a run, as its record says it.

    Attributes:
        rows: rows of all parts.
        tokens: tokens of all texts, after cutting.
        truncated: texts that were cut.
        files: inputs.
        rows_of_this_run: rows that earlier runs had left.
        sentences_per_s: pace of this run; None where it scored nothing.
        labels: names of the labels, in the order of `scores` and `logits`.
        thresholds: of several labels, the probability from which each is given; empty otherwise.
    """

    rows: int
    tokens: int
    truncated: int
    files: int
    parts: int
    rows_of_this_run: int
    sentences_per_s: float | None
    labels: list[str]
    problem_type: str
    thresholds: list[float]


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
        runtime: of the engine; by default int8 where there is such an export, then fp32, then torch.
        output: a directory for it alone. `scores/` holds the rows, its files in the order of the inputs.

    Raises:
        InvalidInput: nothing to score or nothing to score it with, a row that is no text, or a run of something else in `output`.
        StageConflict: another process is writing there.
    """
    check_directory(output, option="--output")
    output = output.absolute()  # pyarrow takes a "~" that a path begins with for somebody's home
    served = _model(engine, runtime)
    config = load_config(served.directory, option="--engine")
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
        check_settings_of_tags(settings)
    max_length = length_taken(config, served.directory, max_length=settings.max_length)
    settings = replace(settings, max_length=max_length)
    sources = find_sources(inputs, output=output)
    kept = kept_schema(sources, settings)
    identity = RunIdentity(settings={**settings.describe(), "runtime": served.runtime}, engine=parent(served.directory))
    old = begun(output)
    if old is not None:
        check_same(old, identity=identity, sources=sources, output=output)
    with OutputLock(output, option="--output"):
        plan = make_plan(sources, settings, identity=identity, old=old)
        missing = take_up(plan, output, old=old, tell=tell)
        if not missing and (output / RECORD).is_file():
            return read_record(output)
        (output / RECORD).unlink(missing_ok=True)
        start = time.perf_counter()
        job = Job(str(served.directory), served.runtime, str((output / PARTS).absolute()), settings, kept)
        scoring = _score(missing, job, pool, rows=plan.rows) if missing else 0.0
        scored = sum(tally_of(output / PARTS / part.name).rows for part in missing)
        all_parts = _tally_of_all(output, plan)
        result = ScoringResult(
            **asdict(all_parts),
            files=len(plan.sources),
            parts=sum(map(len, plan.ranges)),
            rows_of_this_run=scored,
            sentences_per_s=round(scored / scoring, 1) if scored else None,
            labels=list(rule.labels),
            problem_type=rule.problem_type,
            thresholds=list(rule.thresholds),
        )
        return _record(output, plan, result, seconds=time.perf_counter() - start)


def check_settings_of_tags(settings: ScoreSettings) -> None:
    """Refuses what a tagger cannot do.

    Raises:
        InvalidInput: pairs, a column of logits, or a kept column of the name of one of its own.
    """
    if settings.pair_column is not None or settings.logits:
        option = "--logits" if settings.logits else "--pair-column"
        raise InvalidInput(
            f"{option} is for classifiers of texts", got="a tagger, which answers words", repair="leave it out"
        )
    taken = [name for name in settings.kept.values() if name in TAG_COLUMNS]
    if taken:
        raise InvalidInput(
            "--keep must not give two columns of the output one name", got=f"{taken[0]!r}, which a tagger writes", repair=f"call it otherwise: --keep {taken[0]}=OTHER"
        )  # fmt: skip


def _model(engine: Path, runtime: str | None) -> ServedModel:
    models = scan(engine, runtime=runtime)
    if [model.directory for model in models] != [engine.resolve()]:
        raise InvalidInput(
            "--engine must be one model",
            got=f"{engine}, which holds {len(models)}",
            repair=f"use --engine {models[0].directory}:{models[0].runtime}",
        )
    return models[0]


def _score(parts: Sequence[PlannedPart], job: Job, pool: WorkerPool, *, rows: int) -> float:
    """Scores parts under a bar over all rows.

    Returns:
        Seconds since the first worker had its model open.
    """
    missing = sum(part.range.rows for part in parts)
    first_start = float("inf")
    with (
        cluster(pool) as here,
        bar(total=rows, initial=rows - missing, description="score", unit_scale=True) as progress,
    ):
        for outcome in score_parts(iter(parts), job, here):
            first_start = min(first_start, time.perf_counter() - outcome.seconds)
            progress.update(outcome.rows)
        return time.perf_counter() - first_start


def _record(output: Path, plan: Plan, result: ScoringResult, *, seconds: float) -> Record:
    inputs = [{"path": source.path, "bytes": source.size} for source in plan.sources]
    sync_tree(output)
    identity: Identity = {
        "stage": "score",
        "settings": {**plan.identity["settings"], "inputs": inputs},
        "parents": {"engine": plan.identity["engine"]},
    }
    return record_run(output, identity, result=asdict(result), seconds=seconds)


def _tally_of_all(output: Path, plan: Plan) -> Tally:
    return sum((_tally(part, output / PARTS / part.name) for part in plan.parts()), Tally())


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
