"""Every block of the documentation, page by page and in order, beside a finished demo: it runs, and prints what its page says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import PAGES, ROOT, blocks_of
from tests.support.page_runs import check_page, environment

# `test_serving_cluster` runs this one.
ELSEWHERE = {ROOT / "docs" / "operations" / "serving.md"}
RUNNING = [page for page in PAGES if page not in ELSEWHERE and any(block.runs for block in blocks_of(page))]
DEMO_S, PAGE_S = 1800, 3600

pytestmark = [pytest.mark.slow, pytest.mark.pages, pytest.mark.timeout(PAGE_S)]


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> Path:
    """What `make demo` leaves; ALBERT_PLUS_DEMO names one that is there."""
    if given := os.environ.get("ALBERT_PLUS_DEMO"):
        return Path(given).resolve()
    out = tmp_path_factory.mktemp("demo") / "demo-output"
    run = [sys.executable, "-m", "hf_albert_plus", "demo", "--out", out]
    subprocess.run(run, env=environment(), check=True, capture_output=True, timeout=DEMO_S)
    return out


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_runs_and_prints_what_it_says(page, demo, tmp_path):
    (tmp_path / "demo-output").symlink_to(demo)
    check_page(page, tmp_path)
