"""A run of scoring that goes on: what is missing, changed, damaged or begun otherwise, and parts that die."""

import os

import pytest

from hf_albert_plus.batch_scoring import stage
from hf_albert_plus.batch_scoring import worker as reading
from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.records.outputs import OutputLock
from tests.batch_scoring.files import TEXTS, rows_of, write

pytestmark = pytest.mark.usefixtures("in_this_process")


def test_a_stopped_run_goes_on_with_what_is_missing(run, tmp_path):
    write(tmp_path / "in.txt", TEXTS)
    run("in.txt", keep=("text=same",), part_rows=10)
    parts = sorted((tmp_path / "out" / "scores").iterdir())
    (tmp_path / "out" / "record.json").unlink()
    parts[1].unlink()
    (tmp_path / "out" / "scores" / f".{parts[1].name}.0.tmp").write_bytes(b"half")
    before = {path.name: path.stat().st_mtime_ns for path in parts if path.exists()}
    record = run("in.txt", keep=("text=same",), part_rows=10)
    assert not record.reused
    assert (record.result["rows"], record.result["rows_of_this_run"]) == (len(TEXTS), 10)
    assert [row["same"] for row in rows_of(tmp_path)] == TEXTS
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "scores").iterdir()}
    assert before.items() <= after.items()
    assert set(after) == {path.name for path in parts}
    assert run("in.txt", keep=("text=same",), part_rows=10).reused


def test_a_run_that_is_killed_before_it_has_a_plan_can_be_given_again(run, tmp_path, monkeypatch):
    write(tmp_path / "in.txt", TEXTS)

    def killed(plan, path):
        path.with_name(f".{path.name}.tmp").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stage.Plan, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            run("in.txt")
    assert run("in.txt").result["rows"] == len(TEXTS)


def test_a_changed_file_is_scored_anew_and_no_other(run, tmp_path, capsys):
    write(tmp_path / "a.txt", TEXTS[:9])
    write(tmp_path / "b.txt", TEXTS[9:14])
    run("*.txt", keep=("text=same",), part_rows=3)
    write(tmp_path / "b.txt", ["bad", "good"])
    record = run("*.txt", keep=("text=same",), part_rows=3)
    assert record.result["rows_of_this_run"] == 2
    assert [row["same"] for row in rows_of(tmp_path)] == [*TEXTS[:9], "bad", "good"]
    assert "b.txt has changed: it is scored anew" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_length": 32}, ["settings.max_length 64 there, 32 asked for"]),
        ({"runtime": "onnx-int8"}, ["settings.runtime onnx there, onnx-int8 asked for"]),
        ({"inputs": ["a.txt"]}, ["2 inputs there, 1 asked for: b.txt"]),
        ({"inputs": ["b.txt", "a.txt"]}, ["2 inputs there, 2 asked for: in another order"]),
    ],
)
def test_a_run_goes_on_only_with_what_it_was_begun_with(run, tmp_path, change, words):
    write(tmp_path / "a.txt", ["good"])
    write(tmp_path / "b.txt", ["bad"])
    run("*.txt")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    settings = {"inputs": ["*.txt"], **change}
    with pytest.raises(InvalidInput) as refused:
        run(*settings.pop("inputs"), **settings)
    for word in (*words, "choose another --output"):
        assert word in str(refused.value)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")} == before


def test_another_model_under_the_same_name_is_another_engine(run, exported_dir, tmp_path):
    import shutil

    engine = shutil.copytree(exported_dir, tmp_path / "engine")
    (engine / "record.json").unlink()  # with it, an engine that was changed is refused whatever it scored
    write(tmp_path / "in.txt", ["good"])
    run("in.txt", engine=engine)
    (engine / "config.json").write_text((engine / "config.json").read_text() + "\n")
    with pytest.raises(InvalidInput, match=r"engine.sha256 \w+ there, \w+ asked for"):
        run("in.txt", engine=engine)


def test_two_runs_do_not_write_one_directory(run, tmp_path):
    write(tmp_path / "in.txt", ["good"])
    with (
        OutputLock(tmp_path / "out", option="--output"),
        pytest.raises(StageConflict, match="another process is writing"),
    ):
        run("in.txt")
    assert run("in.txt").result["rows"] == 1


def test_a_file_that_changes_meanwhile_is_told(run, tmp_path, monkeypatch):
    write(tmp_path / "in.txt", TEXTS)
    read = reading._READERS["lines of text"]

    def change(part, wanted):
        os.utime("in.txt", ns=(1, 1))
        yield from read(part, wanted)

    monkeypatch.setitem(reading._READERS, "lines of text", change)
    with pytest.raises(InvalidInput, match="an input must stay as it is while it is scored, got .* of in.txt"):
        run("in.txt")
    assert list((tmp_path / "out" / "scores").iterdir()) == []


@pytest.mark.parametrize("dead", [2, 8])
def test_a_part_that_kills_its_workers_is_tried_again_and_given_up_in_the_end(run, tmp_path, monkeypatch, dead):
    write(tmp_path / "in.txt", TEXTS)
    score_here = stage.score_parts

    def score_parts(parts, job, pool):
        """Workers that died left their halves."""
        parts = list(parts)
        for number in range(dead):
            (tmp_path / "out" / "scores" / f".{parts[1].name}.{number}.tmp").write_bytes(b"half")
        return score_here(iter(parts), job, pool)

    monkeypatch.setattr(stage, "score_parts", score_parts)
    if dead == 8:
        with pytest.raises(InvalidInput, match="a worker must live through rows 20 to 39 of in.txt, got 8 that died"):
            run("in.txt", part_rows=20)
        return
    assert run("in.txt", keep=("text=same",), part_rows=20).result["rows"] == len(TEXTS)
    assert [row["same"] for row in rows_of(tmp_path)] == TEXTS
    assert len(list((tmp_path / "out" / "scores").iterdir())) == 3


@pytest.mark.parametrize("harm", ["cut", "empty", "garbage", "zeros", "a link"])
def test_a_damaged_part_is_scored_anew(run, tmp_path, harm, capsys):
    (tmp_path / "in.txt").write_text("\n".join(TEXTS) + "\n")
    whole = run("in.txt", part_rows=16)
    (tmp_path / "out" / "record.json").unlink()
    part = sorted((tmp_path / "out" / "scores").iterdir())[1]
    content = part.read_bytes()
    middle = len(content) // 3
    if harm == "a link":
        part.rename(tmp_path / "elsewhere")
        part.symlink_to(tmp_path / "elsewhere")
    else:
        # In its pages, which have checksums: its footer is whole.
        part.write_bytes({"cut": content[:-9], "empty": b"", "garbage": content[:middle] + os.urandom(64) + content[middle + 64 :],
                          "zeros": bytes(len(content))}[harm])  # fmt: skip
    again = run("in.txt", part_rows=16)
    assert f"a part must be what was written, got {part}" in capsys.readouterr().out
    assert again.files == whole.files
    assert again.result["rows_of_this_run"] == 16
    if harm == "a link":
        assert (tmp_path / "elsewhere").read_bytes() == content


@pytest.mark.parametrize("name", ["out", "out/scores", ".out.lock"])
def test_links_are_not_written_through(run, tmp_path, name):
    (tmp_path / "in.txt").write_text("good\n")
    (tmp_path / "precious").mkdir()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    if name == "out/scores":
        run("in.txt", part_rows=1)
        (tmp_path / name).rename(tmp_path / "moved")
    (tmp_path / name).symlink_to(tmp_path / "precious")
    with pytest.raises(InvalidInput, match=f"{name}, which is a link to .*precious"):
        run("in.txt", part_rows=1)
    assert not list((tmp_path / "precious").iterdir())


@pytest.mark.parametrize(
    "text", ["[]", '{"format": 1}', '{"format": 1, "settings": [], "engine": {}, "sources": []}', "[" * 5000, "", '{"format": NaN}']
)  # fmt: skip
def test_a_plan_of_another_shape_is_refused(run, tmp_path, text):
    (tmp_path / "in.txt").write_text("good\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.json").write_text(text)
    with pytest.raises(
        InvalidInput, match="the plan of a run must .*choose another --output, or remove that directory"
    ):
        run("in.txt")
