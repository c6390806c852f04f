"""Runs cases on warm processes, one a core."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Case
from tests.fuzz.rights import own

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
_ROOT = Path(__file__).parents[2]


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder with the inputs of all verbs, which whoever gave up root's rights may write to."""
    work = Path(tempfile.mkdtemp(prefix="albert-plus-fuzz-"))
    try:
        own(work)
        work.chmod(0o755)
        for name in ("inputs", "home"):
            (work / name).mkdir()
            own(work / name)
        subprocess.run([sys.executable, "-m", "tests.fuzz.inputs", str(work / "inputs")], check=True, cwd=_ROOT, env=_environment(work),
                       stderr=subprocess.PIPE, text=True)  # fmt: skip
        yield work
    finally:
        if not os.environ.get("FUZZ_KEEP"):
            shutil.rmtree(work, ignore_errors=True)


def run_cases(
    cases: Iterable[Case], work: Path, *, tell: Callable[[dict[str, Any]], None] = lambda answer: None
) -> list[tuple[Case, dict[str, Any]]]:
    """Every case with what was found, in their order."""
    waiting, lock = iter(list(cases)), threading.Lock()
    found: list[tuple[Case, dict[str, Any]]] = []
    errors: list[BaseException] = []

    def work_off(core: int | None) -> None:
        try:
            with _Worker(work, core) as worker:
                while True:
                    with lock:
                        case = next(waiting, None)
                    if case is None:
                        return
                    answer = worker.ask(case)
                    with lock:
                        found.append((case, answer))
                        tell(answer)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work_off, args=(core,), daemon=True) for core in CORES or [None]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sorted(found, key=lambda pair: pair[0].number)


class _Worker:
    def __init__(self, work: Path, core: int | None):
        self.work, self.core = work, core

    def __enter__(self) -> "_Worker":
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", str(self.work), *([] if self.core is None else [str(self.core)])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT, env=_environment(self.work),
        )  # fmt: skip
        self._line()
        return self

    def ask(self, case: Case) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asdict(case)) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._line())
        return answer

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with {self.process.wait()}")
        return line

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _environment(work: Path) -> dict[str, str]:
    home = str(work / "home")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}, "HOME": home, "MPLCONFIGDIR": home, "HF_HOME": home, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TERM": "dumb", "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip


__all__ = ["run_cases", "workplace"]
