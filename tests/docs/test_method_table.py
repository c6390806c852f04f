"""The table of methods and their papers: a row for each method, with tests that are there."""

import re

from hf_albert_plus.distillation.methods import METHODS
from tests.support.documents import ROOT

PAGE = (ROOT / "docs" / "reference" / "methods.md").read_text(encoding="utf-8")
WIRING = (ROOT / "tests" / "distillation" / "test_method_wiring.py").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `")]


def test_every_method_has_a_row_with_its_tests_and_what_it_was_measured_to_give():
    of_methods = {row[0].strip("`"): row for row in ROWS if row[0].strip("`") in METHODS}
    assert list(of_methods) == list(METHODS)
    for *_, tests, figures in of_methods.values():
        names = re.findall(r"`(test_\w+)`", tests)
        assert names
        assert all(f"def {name}(" in WIRING for name in names)
        assert "](../results/" in figures or figures.startswith("not measured")


def test_the_files_that_hold_the_others_are_there():
    paths = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert paths
    assert all((ROOT / path).is_file() for path in paths)
