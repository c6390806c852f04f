"""The page of one directory that everything opens: its blocks run on a small student. `test_documents_run` runs it on the demo's."""

import pytest

from tests.support.documents import ROOT
from tests.support.int8_arithmetic import exact_int8
from tests.support.page_runs import check_page
from tests.support.trained import train_sst2


@pytest.mark.slow
@pytest.mark.pages
@exact_int8
def test_one_directory_opens_in_all_that_the_page_names(tokenizer_dir, tmp_path):
    page = tmp_path / "page"
    train_sst2(page / "demo-output" / "trained" / "student-sst2", tokenizer_dir, work=tmp_path / "training")
    check_page(ROOT / "docs" / "guide" / "opens-in.md", page)
