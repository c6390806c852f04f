"""OpenMP's threads wait briefly in processes of the command line, unless the user said how they wait."""

import subprocess
import sys

import pytest

ASK = (
    "import os; from hf_albert_plus.cli.waiting import wait_briefly; wait_briefly(); "
    "print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('OMP_WAIT_POLICY'))"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "2000 None"),
        ({"GOMP_SPINCOUNT": "7"}, "7 None"),
        ({"OMP_WAIT_POLICY": "passive"}, "None passive"),
    ],
)
def test_what_the_user_set_stays(given, expected, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert subprocess.check_output([sys.executable, "-c", ASK], text=True).strip() == expected


def test_torch_is_not_open_when_it_is_set():
    """libgomp reads it once."""
    script = "import sys; import hf_albert_plus.cli.app; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == "False"
