"""A warm process that forks for each case: `python -m tests.fuzz.worker WORK [CORE]` reads cases from stdin, a JSON object a line, and answers each."""

import faulthandler
import json
import os
import resource
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import psutil

from tests.fuzz import stand_ins
from tests.fuzz.cases import Case
from tests.fuzz.contents import spoil
from tests.fuzz.judgement import Ended, judge
from tests.fuzz.rights import give_up_root
from tests.fuzz.states import copy_linked, lay, menagerie
from tests.fuzz.verbs import COPIED, VERBS

# Of a processor; and by the clock, for what waits: a machine with other work may give a case a tenth of a processor.
DEADLINE_S, WAITING_S = 10.0, 100.0
_FILE_BYTES = 1 << 30
# Above what the warm process has: a file without an end must not take the whole machine.
_MEMORY_BYTES = 6 << 30


def main(work: Path) -> None:
    """Answers cases until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    give_up_root()
    stand_ins.warm()
    answers.write("warm\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(run(Case(**json.loads(line)), work)) + "\n")
        answers.flush()


def run(case: Case, work: Path) -> dict[str, Any]:
    """Runs a case in a directory of its own, and judges it."""
    inputs = work / "inputs"
    name = f"case-{case.number}" if case.kind != "valid" else f"valid-{VERBS_AT[case.verb]}-{case.line}"
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    cwd = folder / "here"
    (folder / "tmp").mkdir(parents=True)
    cwd.mkdir()
    random = Random(case.seed)
    words = _laid_out(case, inputs, work, cwd, random)
    watched = [inputs, *(work.glob("valid-*") if case.kind != "valid" else ())]
    before = _signature(watched)
    code, seconds = _forked(words, folder, cwd)
    ended = Ended(case, words, code, seconds, folder, is_changed=_signature(watched) != before)
    answer = judge(ended)
    if case.kind != "valid" and not os.environ.get("FUZZ_KEEP"):
        _remove(folder)
    return answer


VERBS_AT = {verb: place for place, verb in enumerate(VERBS)}


def _laid_out(case: Case, inputs: Path, work: Path, cwd: Path, random: Random) -> list[str]:
    """Makes what the case finds around it; the words with the places of its inputs."""
    menagerie(cwd)
    words = list(case.words)
    for name in COPIED.get(case.verb, ()):
        shutil.copytree(inputs / name, cwd / name)
    if case.kind == "file":
        top = case.file.partition("/")[0]
        if not (cwd / top).exists():
            copy_linked(inputs / top, cwd / "changed" / top)
        holder = cwd if (cwd / top).exists() else cwd / "changed"
        spoil(holder / case.file, case.value, random)
        words = [word.replace(f"{{in}}/{top}", f"changed/{top}") if _names(word, top) else word for word in words]
    if case.kind == "state":
        finished = work / f"valid-{VERBS_AT[case.verb]}-{case.line}" / "here" / "out"
        lay(case.where, cwd / "out", finished, random)
    return [*case.verb.split(), *(word.replace("{in}", str(inputs)) for word in words)]


def _names(word: str, top: str) -> bool:
    rest = word.partition(f"{{in}}/{top}")
    return bool(rest[1]) and rest[2][:1] in ("", "/", ":")


def _signature(folders: list[Path]) -> list[tuple[str, int, int]]:
    """What tells whether a file that several cases share was written to."""
    paths = [os.path.join(root, name) for folder in folders for root, _, files in os.walk(folder) for name in files]
    facts = [(path, os.lstat(path)) for path in sorted(paths)]
    return [(path, one.st_size, one.st_mtime_ns) for path, one in facts]


def _forked(words: list[str], folder: Path, cwd: Path) -> tuple[int | None, float]:
    """Runs the command in a fork.

    Returns:
        Its exit code, -N where signal N ended it, None where it had to be killed; and its seconds.
    """
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        _command(words, folder, cwd)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        seconds = time.monotonic() - start
        if pid:
            _kill(child)
            return os.waitstatus_to_exitcode(status), seconds
        if seconds > DEADLINE_S and (seconds > WAITING_S or _processor_seconds(child) > DEADLINE_S):
            _kill(child)
            os.waitpid(child, 0)
            return None, seconds
        time.sleep(0.005)


def _processor_seconds(child: int) -> float:
    """What a case had of a processor, which others may use as well."""
    times = psutil.Process(child).cpu_times()
    return float(times.user + times.system)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):  # where all of it has ended
        os.killpg(group, signal.SIGKILL)


def _command(words: list[str], folder: Path, cwd: Path) -> None:
    """The fork: never returns."""
    code = 1
    try:
        os.setsid()
        for number, name in ((1, "stdout"), (2, "stderr")):
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(file, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        faulthandler.dump_traceback_later(DEADLINE_S - 1, repeat=True, file=(folder / "where").open("w"))
        os.chdir(cwd)
        os.environ["TMPDIR"] = str(folder / "tmp")
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
        if pages:
            limit = pages * resource.getpagesize() + _MEMORY_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.argv = ["albert-plus", *words]
        sys.modules["__main__"].__spec__ = None  # click would name it as the program
        vars(sys.modules["__main__"]).update(__package__=None)
        from hf_albert_plus.cli.app import main as command

        try:
            command()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _remove(folder: Path) -> None:
    for root, directories, _ in os.walk(folder):
        for name in directories:
            path = os.path.join(root, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755)
    shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[2:]:
        os.sched_setaffinity(0, {int(sys.argv[2])})
    main(Path(sys.argv[1]))
