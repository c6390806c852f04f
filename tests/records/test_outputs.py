"""Outputs lie where they can be written, and never behind a link or in somebody else's directory."""

import errno
import os
from pathlib import Path

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.files import write_json
from hf_albert_plus.records.outputs import OutputLock, check_directory, check_file, take_directory
from hf_albert_plus.records.stage import discard, run_stage
from tests.support.command_line import commands, invoke


def stage(output, *, resumable=True, work=lambda directory: {}):
    return run_stage("test", output, settings={}, parents={}, work=work, resumable=resumable)


@pytest.fixture
def precious(tmp_path):
    """A directory of somebody else's that a link may lead to."""
    directory = tmp_path / "elsewhere" / "precious"
    directory.mkdir(parents=True)
    (directory / "thesis.tex").write_text("years")
    yield directory
    assert [path.name for path in directory.iterdir()] == ["thesis.tex"]
    assert (directory / "thesis.tex").read_text() == "years"


@pytest.mark.parametrize(
    "name",
    ["out.partial", "out.partial/checkpoints", "out.partial/.checkpoints.trash", "out.partial/stage.json",
     "out.partial/checkpoints/checkpoint-3", "out.partial/half"],
)  # fmt: skip
def test_a_link_where_a_stage_works_is_neither_followed_nor_removed(tmp_path, precious, name):
    link = tmp_path / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(precious)
    with pytest.raises(InvalidInput, match=rf"got .*{Path(name).name}, which is a link to .*precious; remove it"):
        stage(tmp_path / "out")
    assert link.is_symlink()


def test_discarded_links_leave_what_they_lead_to(tmp_path, precious):
    (tmp_path / "checkpoints").symlink_to(precious)
    (tmp_path / ".checkpoints.trash").symlink_to(precious)
    discard(tmp_path / "checkpoints")
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


def test_a_lock_that_is_a_link_is_refused(tmp_path, precious):
    (tmp_path / ".out.lock").symlink_to(precious / "thesis.tex")
    with pytest.raises(InvalidInput, match=r"the lock of --out must be a file, .* a link to .*thesis.tex; remove it"):
        stage(tmp_path / "out")


def test_an_output_that_is_a_link_to_nothing_is_refused(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "nothing")
    with pytest.raises(InvalidInput, match=r"--out must be a directory, .*nothing, where nothing is; choose another"):
        stage(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_file_is_not_written_through_a_link(tmp_path, precious):
    (tmp_path / "scores.json").symlink_to(precious / "thesis.tex")
    with pytest.raises(InvalidInput, match=r"an output must be a file, or new, .*scores.json, which is a link"):
        write_json(tmp_path / "scores.json", {})


def test_a_temporary_name_that_is_taken_is_not_followed(tmp_path, precious, monkeypatch):
    monkeypatch.setattr("hf_albert_plus.records.files.secrets.token_hex", lambda count: "guessed")
    monkeypatch.setattr("hf_albert_plus.records.files.os.getpid", lambda: 7)
    for name in (".guessed.tmp", ".scores.json.7.tmp"):
        (tmp_path / name).symlink_to(precious / "thesis.tex")
    with pytest.raises(FileExistsError):
        write_json(tmp_path / "scores.json", {})


@pytest.mark.parametrize("name", ["out", "out.partial", ".out.lock"])
def test_in_a_shared_directory_names_of_others_are_not_used(tmp_path, name, monkeypatch):
    tmp_path.chmod(0o1777)
    (tmp_path / name).touch() if name.endswith("lock") else (tmp_path / name).mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InvalidInput, match=rf"must be your own in a directory that all share, got .*{name} of user"):
        stage(tmp_path / "out")
    tmp_path.chmod(0o755)
    if name != "out":  # shared by those who trust each other
        assert not stage(tmp_path / "out").reused


def test_a_partial_file_is_refused(tmp_path):
    (tmp_path / "out.partial").write_text("precious")
    with pytest.raises(InvalidInput, match=r"works in a directory of its own, got .*out.partial, which is a file"):
        stage(tmp_path / "out")
    assert (tmp_path / "out.partial").read_text() == "precious"


NAMELESS = ["", ".", "/", "..", "here/.."]


@pytest.mark.parametrize("check", [check_directory, check_file])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        *((name, "must name something new, got '.*'; give a name below it") for name in NAMELESS),
        ("a\0b", "must be a path, got .*leave out the zero byte"),
        ("a" * 256, "names of at most 2[45][0-9] bytes, got 256 in aaaa.*; use a shorter name"),
        ("é" * 128, "got 256 in ééé"),
        ("/".join(["a" * 200] * 21), "a path of at most 4000 bytes, got 4[0-9]+; use a shorter path"),
        ("file/out", r"must lie in a directory, got .*/file, which is a file; check the path"),
        ("file/more/out", r"must lie in a directory, got .*/file, which is a file"),
        ("dangling/out", r"must lie in a directory, got .*dangling, which is a link to nowhere, where nothing is"),
        ("/proc/x", r"must lie where files can be made, got /proc/x in /proc \(it takes no new files\); choose another"),
        ("/proc/x/y", r"got /proc/x/y in /proc \(it takes no new files\)"),
        ("/sys/x", r"must lie where files can be made, got /sys/x in /sys \("),
        ("/dev/full", "/dev/full, which is a device"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused_with_its_cause(tmp_path, monkeypatch, check, path, said):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    Path("dangling").symlink_to("nowhere")
    with pytest.raises(InvalidInput, match=f"--it .*{said}"):
        check(Path(path), option="--it")
    assert sorted(os.listdir()) == ["dangling", "file"]


def test_names_as_long_as_the_file_system_takes_them(tmp_path):
    """A directory needs room for `.partial`; its parents and files need none."""
    stage(tmp_path / ("p" * 255) / ("d" * 247))
    write_json(tmp_path / ("f" * 255), {})
    with pytest.raises(InvalidInput, match="at most 247 bytes, got 248"):
        stage(tmp_path / ("d" * 248))


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch, error):
    def refuses(path, *flags):
        raise OSError(error, os.strerror(error), str(path))

    monkeypatch.setattr("hf_albert_plus.records.outputs.os.open", refuses)
    with pytest.raises(InvalidInput, match=rf"where files can be made, .*\({os.strerror(error)}\)"):
        stage(tmp_path / "new" / "out", work=lambda directory: pytest.fail("it worked"))


@pytest.mark.parametrize("words", [["demo"], ["finetune", "--model", "m", "--data", "d", "--task", "sst2"], ["run", "--teacher", "m", "--data", "d", "--task", "sst2"]])  # fmt: skip
@pytest.mark.parametrize("out", ["/proc/x", "/dev/full", ""])
def test_the_command_line_refuses_it_first(words, out):
    """Before it looks at anything else, which is missing here."""
    with pytest.raises(InvalidInput, match="--out"):
        invoke(*words, "--out", out)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["eval", "DIR", "--task", "sst2", "--data", "d", "--json"], "--json"),
        (["eval", "DIR", "--task", "sst2", "--data", "d", "--save-predictions"], "--save-predictions"),
        (["bench", "DIR", "--json"], "--json"),
        (["submit", "sst2=DIR", "--data", "d", "--out"], "--out"),
        (["retrieve", "DIR", "--task", "mrpc", "--data", "d", "--index"], "--index"),
        (["score", "--input", "x", "--engine", "e", "--output"], "--out"),
    ],
)
def test_files_are_checked_before_they_are_measured(words, option):
    with pytest.raises(InvalidInput, match=f"{option}.*/dev/full, which is a device"):
        invoke(*words, "/dev/full")
    assert Path("/dev/full").is_char_device()


def test_every_output_of_the_command_line_is_checked():
    """No option that names what is written goes without."""
    written = {"--out", "--output", "--json", "--save-predictions", "--index"}
    found = [
        (name, p) for name, verb in commands().items() for p in verb.params if written & set(p.opts) and not p.is_flag
    ]
    assert len(found) > 15
    assert [f"{name} {p.opts}" for name, p in found if p.callback is None] == []


def test_taking_a_directory_twice_and_the_lock(tmp_path):
    for _ in range(2):
        take_directory(tmp_path / "own")
    with OutputLock(tmp_path / "out"):
        assert (tmp_path / ".out.lock").is_file()
    assert not (tmp_path / ".out.lock").exists()
