"""Work of several processes at once: that all of it is done, at the same time, and what becomes of work that cannot be."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.search.side_by_side import run_side_by_side
from tests.support.ray_clusters import LOOPBACK, starting_cluster


class Meeting:
    """Each one waits until as many as expected are there: alone nobody gets done."""

    def __init__(self, folder: Path, expected: int):
        self.folder, self.expected = folder, expected

    def __call__(self, name: str) -> None:
        (self.folder / f"{name}.here").write_text(str(os.getpid()))
        deadline = time.monotonic() + 240
        while len(list(self.folder.glob("*.here"))) < self.expected:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if name == "wrong":
            raise InvalidInput("a name must be another", got=name, repair="use a")
        (self.folder / name).write_text("done")


@pytest.mark.slow
def test_all_at_the_same_time(tmp_path, capsys):
    started = time.perf_counter()
    took = run_side_by_side(Meeting(tmp_path, 3), ["a", "wrong", "c"], jobs=3)
    whole = time.perf_counter() - started
    assert sorted(path.name for path in tmp_path.iterdir() if not path.suffix) == ["a", "c"]
    processes = {path.read_text() for path in tmp_path.glob("*.here")}
    assert len(processes) == 3
    assert str(os.getpid()) not in processes
    assert 0 < took <= whole


def test_no_more_at_once_than_asked(tmp_path):
    run_side_by_side(Meeting(tmp_path, 1), list("abcd"), jobs=2)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.suffix) == list("abcd")
    assert len({path.read_text() for path in tmp_path.glob("*.here")}) <= 2


# A process of its own: Ray keeps what it is told first.
_ON_A_CLUSTER = """
import sys
from pathlib import Path
from hf_albert_plus.search.side_by_side import run_side_by_side
from tests.search.test_side_by_side import Meeting
run_side_by_side(Meeting(Path(sys.argv[1]), 2), ["a", "b"], jobs=2, address=sys.argv[2])
"""


@pytest.mark.slow
def test_on_a_cluster(tmp_path):
    pytest.importorskip("ray")
    with starting_cluster() as found:
        address, _ = found()
        command = [sys.executable, "-c", _ON_A_CLUSTER, str(tmp_path), address]
        root = Path(__file__).parents[2]
        environment = {**LOOPBACK, "PYTHONPATH": str(root)}
        done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if not path.suffix) == ["a", "b"]
