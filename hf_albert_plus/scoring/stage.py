"""The stage: plans, scores what is missing, and says in a record what was done."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checkpoints import load_config
from ..errors import InvalidInput, StageConflict
from ..files import sync_tree
from ..glue import load_tokenizer
from ..outputs import OutputLock, check_directory
from ..progress import bar
from ..records import RECORD, Record, parent, read_record, record_run
from ..records import Identity as StageIdentity
from ..serving.repository import Served, scan
from ..serving.text_model import labels_of, length_taken, problem_type_of
from .columns import kept_schema
from .distribution import Place, cluster, score_parts
from .folder import PARTS, begun, take_up
from .plan import Identity, Part, Plan, check_same, make_plan
from .settings import ScoreSettings
from .sources import find_sources
from .worker import Job, Tally, tally_of


def score(
    inputs: Sequence[str],
    *,
    engine: Path,
    runtime: str | None = None,
    output: Path,
    settings: ScoreSettings,
    place: Place,
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
    max_length = length_taken(config, served.directory, max_length=settings.max_length)
    settings = replace(settings, max_length=max_length)
    sources = find_sources(inputs, output=output)
    kept = kept_schema(sources, settings)
    identity = Identity(settings={**settings.describe(), "runtime": served.runtime}, engine=parent(served.directory))
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
        scoring = _score(missing, job, place, rows=plan.rows) if missing else 0.0
        rows = sum(tally_of(output / PARTS / part.name).rows for part in missing)
        facts = {
            "rows_of_this_run": rows,
            "sentences_per_s": round(rows / scoring, 1) if rows else None,
            "labels": list(labels_of(config)),
            "problem_type": problem_type_of(config),
        }
        return _record(output, plan, facts, seconds=time.perf_counter() - start)


def _model(engine: Path, runtime: str | None) -> Served:
    models = scan(engine, runtime=runtime)
    if [model.directory for model in models] != [engine.resolve()]:
        raise InvalidInput(
            "--engine must be one model",
            got=f"{engine}, which holds {len(models)}",
            repair=f"use --engine {models[0].directory}:{models[0].runtime}",
        )
    return models[0]


def _score(parts: Sequence[Part], job: Job, place: Place, *, rows: int) -> float:
    """Scores parts under a bar over all rows.

    Returns:
        Seconds since the first worker had its model open.
    """
    missing = sum(part.range.rows for part in parts)
    begun = float("inf")
    with (
        cluster(place) as here,
        bar(total=rows, initial=rows - missing, description="score", unit_scale=True) as progress,
    ):
        for count, seconds in score_parts(iter(parts), job, here):
            begun = min(begun, time.perf_counter() - seconds)
            progress.update(count)
        return time.perf_counter() - begun


def _record(output: Path, plan: Plan, facts: dict[str, Any], *, seconds: float) -> Record:
    tallies = [_tally(part, output / PARTS / part.name) for part in plan.parts()]
    inputs = [{"path": source.path, "bytes": source.size} for source in plan.sources]
    sync_tree(output)
    identity: StageIdentity = {
        "stage": "score",
        "settings": {**plan.identity["settings"], "inputs": inputs},
        "parents": {"engine": plan.identity["engine"]},
    }
    result = {**vars(sum(tallies, Tally())), "files": len(plan.sources), "parts": len(tallies), **facts}
    return record_run(output, identity, result=result, seconds=seconds)


def _tally(part: Part, file: Path) -> Tally:
    """
    Raises:
        StageConflict: a part without a row for each of its input.
    """
    tally = tally_of(file)
    # Blank lines of JSON are no rows.
    if tally.rows != part.range.rows and part.source.kind != "lines of JSON":
        raise StageConflict(f"{file} must have {part.range.rows} rows, got {tally.rows}; remove it and run again")
    return tally


__all__ = ["score"]
