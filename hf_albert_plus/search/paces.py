"""How fast a target is beside another one on real texts, both in turns: in batches of similar length, and each text alone."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hf_albert_plus.engines.runtime_files import engine_file, weight_files
from hf_albert_plus.eval.latency.timing import current_method, timed_by, warm
from hf_albert_plus.eval.load.traffic import Client, Traffic, time_offline, time_single_stream
from hf_albert_plus.eval.targets import Target, target_parents
from hf_albert_plus.machine import physical_cores
from hf_albert_plus.tasks.splits import data_parent
from hf_albert_plus.tasks.task import Task

from ..records.files import read_json, write_json
from ..records.record import Record
from ..records.stage import run_stage

_FILE = "paces.json"
_SECONDS = 1.0
# Texts that candidates are timed on, fewer where they are long, and how many times the seconds may be spent where it is noisy; the finalists are
# timed on more.
_TEXTS, _FEWEST, _PASS_S, _PATIENCE = 192, 32, 6.0, 3


@dataclass(frozen=True)
class Paces:
    """A target's pace.

    Attributes:
        batches_ms: milliseconds a text in batches of similar length.
        batches_ratio: times the baseline's pace there.
        alone_ms: median of one text at a time.
        alone_ratio: times the baseline's pace there.
        file_bytes: of the files that the target runs.
    """

    batches_ms: float
    batches_ratio: float
    alone_ms: float
    alone_ratio: float
    file_bytes: int


def texts_of_a_pass(text_ms: float, *, seconds: float, fewest: int, most: int) -> int:
    """How many texts are timed, so that one pass over them takes no longer than that where it can."""
    return max(fewest, min(most, round(1e3 * seconds / text_ms)))


def measure_paces(
    target: Target,
    baseline: Target,
    *,
    data: str,
    task: Task,
    max_length: int,
    output: Path,
    threads: int | None,
) -> tuple[Paces, Record]:
    """Times a target and a baseline in turns on texts of a task's first evaluation split, as `bench --data` does."""

    def work(directory: Path) -> dict[str, Any]:
        traffic = Traffic(data, task, max_length=max_length, at_most=_TEXTS)
        cores = threads or physical_cores()
        both = {each.label: each for each in (target, baseline)}
        engines = {label: each.load(threads=cores) for label, each in both.items()}
        clients = {label: Client(each, engines[label], traffic) for label, each in both.items()}
        longest_ms = max(warm(client.answer_longest).call_ms for client in clients.values())
        texts = texts_of_a_pass(longest_ms, seconds=_PASS_S, fewest=_FEWEST, most=_TEXTS)
        if texts < _TEXTS:
            traffic = replace(traffic, at_most=texts)
            clients = {label: Client(each, engines[label], traffic) for label, each in both.items()}
        how: dict[str, Any] = {"baseline": baseline.label, "seconds": _SECONDS}
        method = current_method()
        with timed_by(replace(method, patience=min(method.patience, _PATIENCE))):
            alone = time_single_stream(clients, name="alone", **how)[target.label]
            batches = time_offline(clients, name="in batches", threads=threads, **how)[target.label]
        files = weight_files(engine_file(target.directory, target.runtime))
        paces = Paces(
            batches_ms=1e3 / batches.items_per_s,
            batches_ratio=batches.speedup,
            alone_ms=alone.p50_ms,
            alone_ratio=alone.speedup,
            file_bytes=sum(path.stat().st_size for path in files),
        )
        write_json(directory / _FILE, asdict(paces))
        return {**asdict(paces), "texts": min(texts, _TEXTS)}

    parents = {**target_parents([target, baseline]), "data": data_parent(data, task)}
    settings = {
        "target": target.runtime,
        "baseline": baseline.runtime,
        "max_length": max_length,
        "threads": threads,
        "texts": _TEXTS,
    }
    record = run_stage("paces", output, settings=settings, parents=parents, work=work)
    content = read_json(output / _FILE, what="the paces of a candidate", shape=dict[str, Any])
    return Paces(**content), record
