"""Processes that tests start, and that are gone when a test is, however it ends."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from typing import Any

import psutil


@contextmanager
def running(command: Sequence[str | PathLike[str]], **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """A process with subprocess.Popen's options; at the end of the block it and those that it started are killed, if they still run."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        kill_all(process)


def kill_all(process: "subprocess.Popen[Any]") -> None:
    """Ends a process with those that it started, waits for it and closes its pipes."""
    if process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            for started in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    started.kill()
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):  # what was written to it and not sent
                pipe.close()
