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

PACKAGE = "hf_albert_plus"
# Folders beside the package that import as parts of it.
MAPPED = ("export", "eval")
REPORT = "PLANTED_FAULTS_REPORT"
TIMEOUT_S = 900
Verdict = Literal["caught", "missed", "not planted", "no such test", "fails without the fault"]


@dataclass(frozen=True)
class Fault:
    """A change of the source that makes a result wrong without a word.

    Attributes:
        what: what is wrong with it.
        old: text that is in the source once; it may break its lines elsewhere.
        new: what takes its place.
        caught_by: names of the tests that fail with it, all of them.
    """

    name: str
    what: str
    old: str
    new: str
    caught_by: tuple[str, ...]


FAULTS: tuple[Fault, ...] = (
    Fault(
        "padding-is-seen",
        "Every token attends to padding too.",
        "self.encoder(hidden_BSH, mask, **kwargs)",
        "self.encoder(hidden_BSH, None, **kwargs)",
        ("test_padding_and_token_types_count",),
    ),
    Fault(
        "packed-sequences-meet",
        "Sequences that share a row see each other.",
        "None if sequence_ids is None else packed_sequence_mask_function(sequence_ids)",
        "None",
        ("test_sequences_in_a_row_do_not_see_each_other", "test_a_packed_batch_is_the_padded_one"),
    ),
    Fault(
        "group-of-a-layer",
        "Layers change to the next group one layer early.",
        "layer * sharing // num_hidden_layers for layer in",
        "min((layer + 1) * sharing // num_hidden_layers, sharing - 1) for layer in",
        ("test_maps_worked_by_hand", "test_groups_are_exact_where_the_float_formula_of_2019_is_not"),
    ),
    Fault(
        "position-offset",
        "RoBERTa's positions are counted from its padding token itself.",
        "return int(config.pad_token_id or 0) + 1 if has_offset else 0",
        "return int(config.pad_token_id or 0) if has_offset else 0",
        ("test_every_architecture_and_head",),
    ),
    Fault(
        "temperature-squared",
        "Soft targets lose the factor T² of their loss.",
        'reduction="none", log_target=True).sum(dim=-1) * temperature**2',
        'reduction="none", log_target=True).sum(dim=-1)',
        ("test_soft_targets_by_hand", "test_soft_target_gradient_at_high_temperature"),
    ),
    Fault(
        "layer-map",
        "A student's layers follow the layer before the one that they should.",
        "m * teacher_layers // student_layers for m in layers",
        "max(1, m * teacher_layers // student_layers - 1) for m in layers",
        ("test_layer_maps_worked_by_hand",),
    ),
    Fault(
        "masked-shares",
        "Of the masked tokens 90 % are replaced and 5 % are random, instead of 80 % and 10 %.",
        "REPLACED, RANDOM = 0.8, 0.9",
        "REPLACED, RANDOM = 0.9, 0.95",
        ("test_fates_are_drawn_for_each_token", "test_masks_are_what_bert_says_by_count"),
    ),
    Fault(
        "token-types",
        "The two segments of a pair have each other's token types.",
        '[0] * second + [1] * (example["length"] - second)',
        '[1] * second + [0] * (example["length"] - second)',
        ("test_a_packed_batch_holds_its_examples",),
    ),
    Fault(
        "resumed-run",
        "A run that goes on begins with its first rows again.",
        "None if resumed_from is None else str(resumed_from)",
        "None",
        ("test_of_fine_tuning",),
    ),
    Fault(
        "pruning-inverted",
        "Pruning removes the most important heads and columns.",
        "argsort(descending=True, stable=True)[:count]",
        "argsort(descending=False, stable=True)[:count]",
        ("test_selection_by_hand",),
    ),
    Fault(
        "exit-criterion",
        "Rows leave where the model is unsure.",
        "normalised_entropy(logits_BC) <= criterion.threshold",
        "normalised_entropy(logits_BC) >= criterion.threshold",
        ("test_exits_taken_by_hand",),
    ),
    Fault(
        "scale-per-tensor",
        "All rows of a quantised weight share one scale.",
        "torch.arange(rows) * count // rows",
        "torch.arange(rows) * 0",
        ("test_a_rounded_weight_is_the_nearest_value_of_its_groups_grid",),
    ),
    Fault(
        "dynamic-scale",
        "A dynamic int8 weight has one scale instead of one for each column.",
        "per_channel=True, weight_type=QuantType.QInt8, nodes_to_exclude=list(keep_fp32), )",
        "per_channel=False, weight_type=QuantType.QInt8, nodes_to_exclude=list(keep_fp32), )",
        ("test_every_weight_product_is_counted_and_quantised",),
    ),
    Fault(
        "static-scale",
        "A static int8 weight has one scale instead of one for each column.",
        "per_channel=True, activation_type=QuantType.QInt8",
        "per_channel=False, activation_type=QuantType.QInt8",
        ("test_every_weight_product_lies_between_quantise_and_dequantise",),
    ),
    Fault(
        "uncounted-product",
        "A weight product that stays in fp32 is not reported.",
        "sorted(set(products.fp32) - set(keep_fp32))",
        "[]",
        ("test_a_product_left_in_fp32_is_an_error_that_names_it",),
    ),
    Fault(
        "token-budget",
        "Batches are filled by the tokens of their rows: padding is not counted.",
        "(len(batches[-1]) + 1) * widest > budget",
        "sum(lengths[other] for other in batches[-1]) + lengths[row] > budget",
        ("test_batches_hold_every_row_once_within_the_budget",),
    ),
    Fault(
        "lost-row",
        "The last row of a piece of Parquet is not scored.",
        "max(0, end - max(start, position))",
        "max(0, end - max(start, position) - 1)",
        ("test_every_row_is_scored_once", "test_row_groups_of_any_size_make_parts_of_about_one"),
    ),
    Fault(
        "truncation-by-default",
        "A server cuts texts that are too long without being asked to.",
        'where the request does not say.")\n] = False',
        'where the request does not say.")\n] = True',
        ("test_long_texts_are_refused_or_cut",),
    ),
    Fault(
        "matthews",
        "Matthews' correlation takes the spread of the predictions for that of the labels.",
        "total**2 - (labelled_of**2).sum(axis=0)",
        "total**2 - (predicted_of**2).sum(axis=0)",
        ("test_every_task_scores_as_independent_implementations_do",),
    ),
    Fault(
        "percentile",
        "The 95th percentile of a latency is its 90th.",
        "numpy.percentile(samples_ms, [25, 50, 75, 90, 95, 99])",
        "numpy.percentile(samples_ms, [25, 50, 75, 90, 90, 99])",
        ("test_percentiles_count_outliers_and_keep_them",),
    ),
    Fault(
        "fingerprint",
        "The fingerprint of a directory reads the names of its files, not their contents.",
        "{name} {facts['sha256']}\\n",
        "{name}\\n",
        ("test_the_fingerprint_sees_content_and_not_the_card",),
    ),
    Fault(
        "kept-work",
        "Kept work counts while its files have their sizes, whatever is in them.",
        'and file_sha256(file) == facts["sha256"]',
        "",
        ("test_work_counts_while_its_files_are_what_was_written",),
    ),
)


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
