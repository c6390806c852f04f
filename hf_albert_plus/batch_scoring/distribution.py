"""Parts over workers, on Ray Data: one machine or a cluster, whose workers and nodes may die."""

import json
import logging
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from ..errors import AlbertPlusError, InvalidInput
from ..machine import physical_cores
from ..serving.carried_errors import error_of, error_text
from ..serving.cluster import join, leave, ray_library
from .plan import PlannedPart
from .ranges import RowRange
from .sources import Source
from .worker import Job, Worker

# Parts that Ray is told of at a time: it keeps a reference to each.
_WINDOW = 8192


@dataclass(frozen=True)
class WorkerPool:
    """The workers that parts are scored by.

    Attributes:
        address: address of a Ray cluster to join; None for a cluster of its own, on loopback.
        workers: how many at most; None for one on this machine, and on a cluster for as many as fit.
        cores: cores of a worker; None for this machine's physical ones, and on a cluster for all of its smallest node.
    """

    address: str | None = None
    workers: int | None = None
    cores: int | None = None


@dataclass(frozen=True)
class PartOutcome:
    """What came of a part.

    Attributes:
        rows: rows that were scored.
        seconds: time that it took.
        problem: what the user can repair, as text; empty where the part was scored.
    """

    rows: int = 0
    seconds: float = 0.0
    problem: str = ""

    def as_batch(self) -> dict[str, list[Any]]:
        """The outcome as a batch of Ray Data, of one row."""
        return {name: [value] for name, value in asdict(self).items()}

    @classmethod
    def of_batch(cls, batch: Mapping[str, Sequence[Any]]) -> "Iterator[PartOutcome]":
        """The outcomes of a batch, which Ray may have made of several."""
        for rows, seconds, problem in zip(batch["rows"], batch["seconds"], batch["problem"], strict=True):
            yield cls(rows=int(rows), seconds=float(seconds), problem=str(problem))


class PartScorer:
    """What an actor of Ray Data runs. What a user can repair is an answer: as an error it would be Ray's, with all its frames."""

    def __init__(self, job: Job, cores: int):
        self.job, self.cores = job, cores
        self.worker: Worker | None = None

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """Scores the part of a batch of one row."""
        (text,) = batch["part"]
        part = _part_of(text)
        try:
            self.worker = self.worker or Worker(self.job, cores=self.cores)
            start = time.perf_counter()
            self.worker.score(part)
        except InvalidInput as error:
            problem = error
        except OSError as error:
            repair = "mend that; on a cluster they must lie on storage that all nodes share, under the same path"
            problem = InvalidInput(
                "a worker must read the model and the inputs, and write --output", got=str(error), repair=repair
            )
        else:
            return PartOutcome(rows=part.range.rows, seconds=time.perf_counter() - start).as_batch()
        return PartOutcome(problem=error_text(problem)).as_batch()


@contextmanager
def cluster(pool: WorkerPool) -> Iterator[WorkerPool]:
    """Ray, joined or started, and what of it is used; left again at the end.

    Raises:
        InvalidInput: no Ray here, or nobody at that address.
    """
    # Ray writes to the terminal that a dead driver's actors cannot start again.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray_library("ray.data", extra="score", address=pool.address)
    import ray

    if ray.is_initialized():
        yield _settled(pool)
        return
    cores, workers = pool.cores or physical_cores(), pool.workers or 1
    join(pool.address, cores=cores * workers)
    # Ray tells of dead workers on stdout, which is for results.
    with redirect_stdout(sys.stderr):
        try:
            yield replace(pool, cores=cores, workers=workers) if pool.address is None else _settled(pool)
        finally:
            leave()


def score_parts(parts: Iterator[PlannedPart], job: Job, pool: WorkerPool) -> Iterator[PartOutcome]:
    """Scores parts, in any order.

    Yields:
        What came of each one that is done.

    Raises:
        InvalidInput: something that the user can repair, in a part or on a node. What other parts wrote stays.
    """
    while window := list(islice(parts, _WINDOW)):
        yield from _score_window(window, job, pool)


def outcomes(batches: Iterable[Mapping[str, Sequence[Any]]]) -> Iterator[PartOutcome]:
    """What came of parts, from what `PartScorer` answers.

    Raises:
        InvalidInput: the first problem among them.
    """
    for batch in batches:
        for outcome in PartOutcome.of_batch(batch):
            if outcome.problem:
                raise error_of(outcome.problem)
            yield outcome


def _score_window(parts: Sequence[PlannedPart], job: Job, pool: WorkerPool) -> Iterator[PartOutcome]:
    import ray

    needs_gpu = job.runtime == "tensorrt"
    if needs_gpu and not ray.cluster_resources().get("GPU"):
        raise InvalidInput("tensorrt runs on a GPU", got="none among what Ray has", repair="use another engine")
    items = [as_item(part) for part in parts]
    dataset = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        PartScorer,
        fn_constructor_args=(job, pool.cores),
        batch_size=1,
        compute=_actors(pool, most=len(items)),
        num_cpus=pool.cores,
        num_gpus=1 if needs_gpu else None,
    )
    dataset.context.enable_progress_bars = False
    _quiet()
    # Ray Data starts dead actors again without end, wherever there is room, and gives them the parts that they had.
    batches: Any = iter(dataset.iter_batches(batch_size=None, prefetch_batches=0))
    try:
        with closing(batches):
            yield from outcomes(batches)
    except ray.exceptions.RayError as error:
        raise AlbertPlusError(
            f"a worker must come through its part, got {str(error).strip().splitlines()[-1]}; what is done stays: run again to go on, with a "
            "smaller --token-budget or fewer --cores if the workers lack memory"
        ) from error


def _actors(pool: WorkerPool, *, most: int) -> Any:
    """As many actors as fit, and more when nodes join."""
    import ray

    fitting = sum(int(cpus // pool.cores) for cpus in _cpus_of_nodes()) if pool.cores else 1
    workers = min(most, pool.workers or most)
    return ray.data.ActorPoolStrategy(
        min_size=1, max_size=workers, initial_size=max(1, min(workers, fitting)), max_tasks_in_flight_per_actor=2
    )


def _settled(pool: WorkerPool) -> WorkerPool:
    """The cores of a worker on a cluster.

    Raises:
        InvalidInput: no node has so many.
    """
    nodes = _cpus_of_nodes()
    cores = pool.cores or int(min(nodes, default=1))
    if cores > max(nodes, default=0):
        raise InvalidInput(
            "--cores must not exceed those that Ray has on a node", got=cores, repair=f"use --cores {int(max(nodes, default=1))}"
        )  # fmt: skip
    return replace(pool, cores=cores)


def _cpus_of_nodes() -> list[float]:
    import ray

    counts = [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]
    return [count for count in counts if count >= 1]


def _quiet() -> None:
    """Keeps what Ray Data says of its own work to its log file."""
    logger = logging.getLogger("ray.data")
    logger.handlers = [handler for handler in logger.handlers if not isinstance(handler, logging.StreamHandler)]


def as_item(part: PlannedPart) -> dict[str, str]:
    """A part as a row of Ray Data."""
    return {"part": json.dumps(asdict(part))}


def _part_of(text: str) -> PlannedPart:
    facts = json.loads(text)
    return PlannedPart(facts["name"], Source(**facts["source"]), RowRange(*facts["range"]))
