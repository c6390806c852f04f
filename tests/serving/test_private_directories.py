"""The directories of Ray's files: whose they are, and what becomes of those that a killed process left."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from hf_albert_plus.serving import cluster as private_directories

MAKE = """
import sys
from hf_albert_plus.serving import cluster as private_directories
private_directories._LONGEST_DIRECTORY = 4000
print(private_directories.make_private_directory(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A place for temporary files whose path is short enough for Ray."""
    monkeypatch.setattr(private_directories, "_LONGEST_DIRECTORY", 4000)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    yield tmp_path
    private_directories.remove_private_directories()


@contextmanager
def process(folder):
    """A process with a directory of its own, and that directory; killed at the end."""
    words = [sys.executable, "-c", MAKE]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            directory = Path(started.stdout.readline().strip())
            assert directory.parent == folder
            yield started, directory
        finally:
            started.kill()


def test_what_a_killed_process_left_goes_when_the_next_one_starts(folder):
    with process(folder) as (living, its_own):
        with process(folder) as (_, left):
            (left / "ray").mkdir()
            (left / "ray" / "log").write_text("a line")
        assert living.poll() is None
        assert set(folder.iterdir()) == {its_own, left}
        made = private_directories.make_private_directory()
        assert set(folder.iterdir()) == {its_own, made}
        # Another one of this process's takes nothing from the first.
        again = private_directories.make_private_directory()
        assert set(folder.iterdir()) == {its_own, made, again}


def test_what_is_not_known_to_be_left_stays(folder):
    named = folder / "albert-of-somebody"
    named.mkdir(mode=0o700)
    being_made = folder / "albert-new"
    being_made.mkdir(mode=0o700)
    (being_made / "lock").touch()
    opened = folder / "albert-open"
    opened.mkdir()
    opened.chmod(0o755)
    link = folder / "albert-link"
    link.symlink_to(folder / "elsewhere")
    (folder / "elsewhere").mkdir(mode=0o700)
    for directory in (opened, folder / "elsewhere"):
        (directory / "lock").touch()
        (directory / "process").write_text("1")
    before = set(folder.iterdir())
    private_directories.remove_abandoned(folder)
    assert set(folder.iterdir()) == before


def test_a_directory_is_its_users_alone_and_goes_with_the_process(folder):
    made = private_directories.make_private_directory()
    assert made.stat().st_mode & 0o077 == 0
    private_directories.remove_private_directories()
    assert not made.exists()
