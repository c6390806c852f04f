"""The planted faults can be planted, each in one place, and their table in the pages is theirs."""

from pathlib import Path

import pytest

from tests import planted_faults
from tests.faults import FAULTS
from tests.faults.source_tree import SourceTree

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tree():
    return SourceTree(ROOT)


def test_every_fault_has_a_name_of_its_own():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_the_text_of_every_fault_stands_in_one_place(tree):
    assert {fault.name: len(tree.places(fault.old)) for fault in FAULTS} == {fault.name: 1 for fault in FAULTS}


def test_the_tests_of_every_fault_are_there(tree):
    assert [name for fault in FAULTS for name, places in tree.tests(fault.caught_by).items() if not places] == []


def test_the_page_has_their_table():
    """Write it anew with `python -m tests.planted_faults --table`."""
    page = (ROOT / "docs" / "develop" / "testing.md").read_text(encoding="utf-8")
    assert "\n".join(planted_faults.table(FAULTS)) in page
