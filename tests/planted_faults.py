"""Faults that the tests must catch: each is planted into a copy of the working tree, where the tests that caught it before must fail.

    python -m tests.planted_faults [--only NAME ...] [--json FILE] [--list]

Faults are found by their text and tests by their names, so that both may move to other files. In the copy, pytest loads this
module as a plugin, which checks that the copy is what was imported, and reports what every test said.
"""

import argparse
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from tests.faults import FAULTS, Fault

PACKAGE = "hf_albert_plus"
# Folders beside the package that import as parts of it.
MAPPED = ("export", "eval")
REPORT = "PLANTED_FAULTS_REPORT"
TIMEOUT_S = 900
Verdict = Literal["caught", "missed", "not planted", "no such test", "fails without the fault"]


@dataclass(frozen=True)
class Outcome:
    """What became of one fault.

    Attributes:
        file: where it was planted, from the root of the tree.
        tests: what each of its tests said with the fault: passed, not run, or failed and why.
        detail: why it was not caught.
    """

    name: str
    verdict: Verdict
    file: str | None
    tests: Mapping[str, str]
    detail: str
    seconds: float


class Copy:
    """A copy of the files that git knows or would add, into which faults are planted one at a time."""

    def __init__(self, source: Path, root: Path):
        self.root = root.resolve()
        asked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(asked, cwd=source, check=True, capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            if (source / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, self.root / name)
        for name in MAPPED:
            # An editable install would lead to the checkout's own folder; what lies in the package is found before.
            link = self.root / PACKAGE / name
            if not link.exists():
                link.symlink_to(self.root / name, target_is_directory=True)

    def places(self, text: str) -> list[tuple[Path, int, int]]:
        """Where a text stands in the source, however its lines are broken: file, start and end."""
        pattern = re.compile(r"\s+".join(map(re.escape, text.split())))
        # The mapped folders are read once, whether or not the links to them are followed.
        files = {path.resolve() for folder in (PACKAGE, *MAPPED) for path in (self.root / folder).rglob("*.py")}
        return [(path, *hit.span()) for path in sorted(files) for hit in pattern.finditer(path.read_text("utf-8"))]

    def tests(self, names: Collection[str]) -> dict[str, list[str]]:
        """Name of a test function -> what pytest calls it, in every file that has one."""
        called: dict[str, list[str]] = {name: [] for name in names}
        for path in sorted((self.root / "tests").rglob("*.py")):
            for name in re.findall(r"^def (test_\w+)\(", path.read_text("utf-8"), re.MULTILINE):
                if name in called:
                    called[name].append(f"{path.relative_to(self.root).as_posix()}::{name}")
        return called

    def run(self, tests: Sequence[str]) -> dict[str, str]:
        """Runs tests of the default tier.

        Returns:
            Name of a test function -> passed, not run, or failed and why.

        Raises:
            RuntimeError: pytest did not come to its end, or something was imported from elsewhere.
        """
        report = self.root / "planted_faults_report.json"
        report.unlink(missing_ok=True)
        options = ["-q", "--tb=line", "-p", "no:cacheprovider", "-p", "tests.planted_faults"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        environment = {**os.environ, "PYTHONPATH": str(self.root), REPORT: str(report)}
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if not report.is_file() or done.returncode not in (0, 1):
            raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        content = json.loads(report.read_text("utf-8"))
        if content["foreign"]:
            raise RuntimeError(f"imported from elsewhere than {self.root}: {', '.join(content['foreign'])}")
        return {name: content["tests"].get(name, "not run") for name in {test.partition("::")[2] for test in tests}}


def check(fault: Fault, copy: Copy, *, before: Mapping[str, str]) -> Outcome:
    """Plants a fault, runs its tests, and takes it out again.

    Args:
        before: what the tests said without it.
    """
    start = time.perf_counter()
    places, tests = copy.places(fault.old), copy.tests(fault.caught_by)
    file = places[0][0].relative_to(copy.root).as_posix() if len(places) == 1 else None

    def outcome(verdict: Verdict, detail: str = "", said: Mapping[str, str] | None = None) -> Outcome:
        return Outcome(fault.name, verdict, file, said or {}, detail, round(time.perf_counter() - start, 1))

    if len(places) != 1:
        return outcome("not planted", f"the text was found {len(places)} times" if places else "the text was not found")
    missing = [name for name in fault.caught_by if not tests[name]]
    if missing:
        return outcome("no such test", ", ".join(missing))
    wrong = [f"{name}: {before[name]}" for name in fault.caught_by if before[name] != "passed"]
    if wrong:
        return outcome("fails without the fault", ", ".join(wrong))
    path, begin, end = places[0]
    text = path.read_text("utf-8")
    _write(path, text[:begin] + fault.new + text[end:])
    try:
        said = copy.run([test for name in fault.caught_by for test in tests[name]])
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return outcome("missed", str(error))
    finally:
        _write(path, text)
    unknown = [name for name in fault.caught_by if said[name].startswith("failed: NameError")]
    if unknown:
        return outcome("not planted", "what takes the text's place reads a name that is not there", said)
    silent = [name for name in fault.caught_by if not said[name].startswith("failed")]
    return outcome("missed", f"by {', '.join(silent)}", said) if silent else outcome("caught", said=said)


def _write(path: Path, text: str) -> None:
    """Replaces a source file, and what Python has compiled of it: it tells versions apart by size and whole seconds."""
    path.write_text(text, "utf-8")
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def check_all(faults: Sequence[Fault]) -> Iterator[Outcome]:
    """Copies the working tree, runs all tests of the faults without one, and then checks each fault."""
    with tempfile.TemporaryDirectory(prefix="planted-faults-") as folder:
        copy = Copy(Path(__file__).resolve().parent.parent, Path(folder))
        names = {name for fault in faults for name in fault.caught_by}
        tests = [test for called in copy.tests(sorted(names)).values() for test in called]
        before = {**dict.fromkeys(names, "not run"), **copy.run(tests)}
        for fault in faults:
            yield check(fault, copy, before=before)


def show(faults: Sequence[Fault]) -> None:
    """Prints the faults, where each would be planted, and its tests."""
    with tempfile.TemporaryDirectory(prefix="planted-faults-") as folder:
        copy = Copy(Path(__file__).resolve().parent.parent, Path(folder))
        for fault in faults:
            files = [path.relative_to(copy.root).as_posix() for path, _, _ in copy.places(fault.old)]
            print(f"{fault.name}: {fault.what}\n  in {', '.join(files) or 'no file'}")
            for name, tests in copy.tests(fault.caught_by).items():
                print(f"  by {', '.join(tests) or f'{name}, which is not there'}")


def main(words: Sequence[str] | None = None) -> int:
    """Checks the faults; 1 where any is not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted_faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[fault.name for fault in FAULTS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what became of each fault")
    parser.add_argument("--list", action="store_true", help="say what would be planted where, and plant nothing")
    given = parser.parse_args(words)
    chosen = [fault for fault in FAULTS if given.only is None or fault.name in given.only]
    if given.list:
        show(chosen)
        return 0
    outcomes = []
    for outcome in check_all(chosen):
        outcomes.append(outcome)
        print(f"{outcome.verdict:12} {outcome.name} ({outcome.seconds} s) {outcome.detail}".rstrip(), flush=True)
    counts = {verdict: sum(outcome.verdict == verdict for outcome in outcomes) for verdict in get_args(Verdict)}
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if given.json is not None:
        content = {"counts": counts, "faults": [asdict(outcome) for outcome in outcomes]}
        given.json.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
    return 0 if counts["caught"] == len(outcomes) else 1


# The plugin. What each test function said: failed where any of its cases did.
_said: dict[str, str] = {}


def pytest_runtest_setup(item: Any) -> None:
    """Leaves out the other cases of a test that has failed."""
    if _said.get(getattr(item, "originalname", ""), "").startswith("failed"):
        pytest.skip("another case has failed")


def pytest_runtest_logreport(report: Any) -> None:
    """Notes what a case says, and the first line of its error."""
    name = report.nodeid.partition("[")[0].rpartition("::")[2]
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        _said[name] = f"failed: {str(crash.message if crash else report.longrepr).partition(chr(10))[0][:200]}"
    elif report.passed and report.when == "call":
        _said.setdefault(name, "passed")


def pytest_sessionfinish() -> None:
    """Writes the report, with the modules that do not come from the copy."""
    for name in MAPPED:
        importlib.import_module(f"{PACKAGE}.{name}")
    root = Path(os.environ[REPORT]).parent
    files = {
        name: str(module.__file__)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == PACKAGE and getattr(module, "__file__", None)
    }
    foreign = [f"{name} ({file})" for name, file in files.items() if not Path(file).resolve().is_relative_to(root)]
    content = {"tests": _said, "foreign": foreign, "modules": len(files)}
    Path(os.environ[REPORT]).write_text(json.dumps(content), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
