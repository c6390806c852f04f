"""A command ends with a sentence: what a user can repair with exit code 2, a fault of the program with 70 and its trace in a file."""

import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from hf_albert_plus.cli.failures import as_known, run_command
from hf_albert_plus.errors import InvalidInput, StageConflict
from tests.support.processes import running


def ended(error, monkeypatch, capsys):
    def command():
        raise error

    monkeypatch.setattr(sys, "argv", ["albert-plus", "eval"])
    with pytest.raises(SystemExit) as stopped:
        run_command(command)
    return stopped.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidInput("--a must be b", got="c", repair="use d"), "--a must be b, got c; use d"),
        (StageConflict("another process"), "another process"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out"), "the disk must have room for what is written, got .*'out'; free"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS), "out"), "a disk that can be written, got .*; choose a place"),
        (PermissionError(errno.EACCES, os.strerror(errno.EACCES), "out"), "yours to read and to write, got .*; choose a place"),
        (OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), "a" * 300), "names must be as short .*; use a shorter name"),
        (OSError(errno.ELOOP, os.strerror(errno.ELOOP), "a"), "links must lead .*; remove the link"),
        (OSError("the Hub does not answer"), "files and connections must work, got the Hub does not answer; check"),
        (OverflowError("int too large to convert to float"), "numbers must not be larger .*; use smaller ones"),
        (MemoryError(), "memory enough, got too little of it; use a smaller --batch-size"),
    ],
)  # fmt: skip
def test_what_a_user_can_repair_ends_with_2(error, said, monkeypatch, capsys):
    code, printed = ended(error, monkeypatch, capsys)
    assert code == 2
    assert re.search(f"^error: .*{said}", printed)
    assert "Traceback" not in printed


def test_a_fault_of_ours_says_so_and_keeps_its_trace(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code, printed = ended(KeyError("surprise"), monkeypatch, capsys)
    assert code == 70
    assert "Traceback" not in printed
    assert re.search(r"a fault of albert-plus, not of yours \(KeyError: 'surprise'\)\. Please report it", printed)
    (trace,) = tmp_path.iterdir()
    assert str(trace) in printed
    content = trace.read_text()
    assert "command: ['albert-plus', 'eval']" in content
    assert "Traceback" in content
    assert "surprise" in content


def test_a_trace_that_cannot_be_written_is_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    code, printed = ended(KeyError("surprise"), monkeypatch, capsys)
    assert code == 70
    assert "could not be written" in printed
    assert "Traceback" in printed


def test_half_characters_in_a_message_are_printed(monkeypatch, capsys):
    code, printed = ended(InvalidInput("a text", got="\ud800", repair="mend it"), monkeypatch, capsys)
    assert code == 2
    assert r"got \ud800; mend it" in printed


def test_words_that_are_no_text_are_refused():
    command = [Path(sys.executable).parent / "albert-plus", "eval", b"\xff", "--task", "sst2", "--data", "d"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert r"the words of a command must be UTF-8, got '\udcff'" in done.stderr


def test_other_errors_are_not_taken_for_a_users():
    assert as_known(ValueError("x")) is None


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["opening libraries", "working"])
def test_ctrl_c_ends_with_130_and_a_line(tmp_path, moment):
    """A run in the shell: it is interrupted as soon as it has opened its first library, or begun to write."""
    command = [Path(sys.executable).parent / "albert-plus", "demo", "--out", tmp_path / "out"]
    with running(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's jobs in the background ignore it
    ) as process:  # fmt: skip
        mapped = Path(f"/proc/{process.pid}/maps")
        while not ("libtorch" in mapped.read_text() if moment == "opening libraries" else (tmp_path / "out").exists()):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=240)
    assert process.returncode == 130
    assert printed == ""
    assert said.splitlines()[-1].startswith("stopped")
    assert "Traceback" not in said


def test_ctrl_c_in_a_verb_says_how_to_go_on(monkeypatch, capsys):
    def command():
        sys.exit(130)  # as typer does

    monkeypatch.setattr(sys, "argv", ["albert-plus", "eval"])
    with pytest.raises(SystemExit) as ended:
        run_command(command)
    assert ended.value.code == 130
    assert capsys.readouterr().err == ("stopped: give the same command again, and it goes on from what is finished\n")
