"""Candidates that learn at the same time: each in a process of its own on its share of the cores, or in the processes of a Ray cluster whose
machines have this one's files."""

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import AlbertPlusError
from ..machine import physical_cores, use_threads
from ..records.progress import say
from ..serving.cluster import join, leave, ray_library


def run_side_by_side(
    work: Callable[[Any], object], items: Sequence[Any], *, jobs: int, address: str | None = None
) -> float:
    """Does work on each item, so many at a time, in the order in which processes are free. Work whose rules are broken is left as it
    is: whoever asks for what it makes does it again, and is told why.

    Args:
        work: makes directories, and is pickled.
        address: of a Ray cluster.

    Returns:
        The seconds that all of it took.
    """
    from joblib import Parallel, delayed

    started, at_once = time.perf_counter(), min(jobs, len(items))
    threads = max(1, physical_cores() // at_once)
    say(f"  {len(items)} candidates learn, {at_once} at a time")
    with _backend(address):
        Parallel(n_jobs=at_once)(delayed(_in_job)(work, item, threads) for item in items)
    return time.perf_counter() - started


@contextlib.contextmanager
def _backend(address: str | None) -> Iterator[None]:
    """joblib's own processes, or those of a cluster."""
    from joblib import parallel_config

    if address is None:
        yield
        return
    ray_library("ray.util.joblib", address=address, extra="score").register_ray()
    join(address)
    try:
        with parallel_config("ray"):
            yield
    finally:
        leave()


def _in_job(work: Callable[[Any], object], item: Any, threads: int) -> None:
    """Work in a process of its own, whose bars and words nobody reads."""
    use_threads(threads)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(AlbertPlusError):
        work(item)
