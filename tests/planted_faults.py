"""Faults that the tests must catch: each is planted into a copy of the working tree, where the tests that caught it before must fail.

    python -m tests.planted_faults [--only NAME ...] [--json FILE] [--list] [--table]

Faults are found by their text and tests by their names, so that both may move to other files. In the copy, pytest loads this
module as a plugin, which checks that the copy is what was imported, and reports what every test said.
"""

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pytest

from tests.faults import FAULTS, Fault
from tests.faults.source_tree import MAPPED, PACKAGE, SourceTree

ROOT = Path(__file__).resolve().parent.parent
REPORT = "PLANTED_FAULTS_REPORT"
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


class Copy(SourceTree):
    """A copy of the files that git knows or would add, into which faults are planted one at a time."""

    def __init__(self, source: Path, root: Path):
        super().__init__(root)
        self.warm: subprocess.Popen[str] | None = None
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

    def run(self, tests: Sequence[str]) -> dict[str, str]:
        """Runs tests, slow ones too.

        Returns:
            Name of a test function -> passed, not run, or failed and why.

        Raises:
            RuntimeError: pytest did not come to its end, or something was imported from elsewhere.
        """
        report, log = self.root / "planted_faults_report.json", self.root / "planted_faults.log"
        report.unlink(missing_ok=True)
        code = self._pytest(
            [str(log), "-q", "--tb=line", "-m", "", "-p", "no:cacheprovider", "-p", "tests.planted_faults", *tests],
            report,
        )
        if not report.is_file() or code not in (0, 1):
            raise RuntimeError(f"pytest ended with {code}:\n{log.read_text('utf-8')[-3000:] if log.is_file() else ''}")
        content = json.loads(report.read_text("utf-8"))
        if content["foreign"]:
            raise RuntimeError(f"imported from elsewhere than {self.root}: {', '.join(content['foreign'])}")
        return {name: content["tests"].get(name, "not run") for name in {test.partition("::")[2] for test in tests}}

    def _pytest(self, words: list[str], report: Path) -> int:
        """The exit code of a pytest in the copy."""
        if self.warm is None:
            environment = {**os.environ, "PYTHONPATH": str(self.root), "HF_HUB_OFFLINE": "1", REPORT: str(report)}
            self.warm = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.warm_pytest"],
                cwd=self.root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self.warm.stdin is not None
        assert self.warm.stdout is not None
        self.warm.stdin.write(json.dumps(words) + "\n")
        self.warm.stdin.flush()
        return int(json.loads(self.warm.stdout.readline()))

    def close(self) -> None:
        """Ends what runs the tests."""
        if self.warm is not None:
            self.warm.communicate()


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
    except RuntimeError as error:
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
        copy = Copy(ROOT, Path(folder))
        names = {name for fault in faults for name in fault.caught_by}
        tests = [test for called in copy.tests(sorted(names)).values() for test in called]
        try:
            before = {**dict.fromkeys(names, "not run"), **copy.run(tests)}
            for fault in faults:
                yield check(fault, copy, before=before)
        finally:
            copy.close()


def show(faults: Sequence[Fault]) -> None:
    """Prints the faults, where each would be planted, and its tests."""
    tree = SourceTree(ROOT)
    for fault in faults:
        files = [path.relative_to(tree.root).as_posix() for path, _, _ in tree.places(fault.old)]
        print(f"{fault.name}: {fault.what}\n  in {', '.join(files) or 'no file'}")
        for name, tests in tree.tests(fault.caught_by).items():
            print(f"  by {', '.join(tests) or f'{name}, which is not there'}")


def table(faults: Sequence[Fault]) -> list[str]:
    """The lines of a table of what each fault does and which tests catch it."""
    rows = [f"| {fault.what} | {', '.join(f'`{name}`' for name in fault.caught_by)} |" for fault in faults]
    return ["| fault | caught by |", "|---|---|", *rows]


def main(words: Sequence[str] | None = None) -> int:
    """Checks the faults; 1 where any is not caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted_faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[fault.name for fault in FAULTS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what became of each fault")
    parser.add_argument("--list", action="store_true", help="say what would be planted where, and plant nothing")
    parser.add_argument("--table", action="store_true", help="print the table of docs/develop/testing.md")
    given = parser.parse_args(words)
    chosen = [fault for fault in FAULTS if given.only is None or fault.name in given.only]
    if given.list:
        show(chosen)
        return 0
    if given.table:
        print("\n".join(table(chosen)))
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
