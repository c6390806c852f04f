"""The script of GLUE's table: every word of it is known where it is read, and it reads what it made."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.study_calls import EXAMPLES, calls_of

_STANDS_FOR_PYTHON = """#!/bin/bash
if [ "$(basename "$1")" = plain_trainer.py ]; then mkdir -p "$4"; echo "$2 $5 ${@: -1}" > "$4/asked"; else echo "table of ${@:2}"; fi
"""


@pytest.fixture
def glue_table(tmp_path, monkeypatch):
    """What the script of GLUE's table asks for, by verb, and the folder that it works in."""
    monkeypatch.setenv("TASKS", "mrpc sst2 stsb")
    monkeypatch.setenv("SEEDS", "4 5")
    monkeypatch.setenv("DROPS", "1 3")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(_STANDS_FOR_PYTHON)
    python.chmod(0o755)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)

    def run(*texts):
        return calls_of("glue-table.sh", "table", "org/base", "org/small", "nyu-mll/glue", *texts, folder=tmp_path)

    return run, tmp_path / "table"


@pytest.mark.slow
def test_the_table_of_glue_reads_what_it_made(glue_table, monkeypatch):
    run, folder = glue_table
    monkeypatch.setenv("STEPS", "make")
    calls = run("a.txt", "b.txt")
    assert (folder / "text.txt").read_text() == "a.txt\nb.txt\n"
    made, exported = {"org/base", "org/small"}, {}
    for verb, found in calls:
        for name in ("model", "teacher", "student", "source", "directory"):
            given = found.get(name) or ()
            for each in given if isinstance(given, tuple) else [given]:
                assert str(each) in made, (verb, name)
        if verb == "export":
            exported[str(found["out"])] = set(found["to"])
        if verb != "compress":  # a search goes on with another tolerance
            assert str(found["out"]) not in made
        made.add(str(found["out"]))
    counts = {}
    for verb, _ in calls:
        counts[verb] = counts.get(verb, 0) + 1
    # Two seeds of two tasks and one of the large one; two searches of either kind, and exits where there are classes.
    assert counts == {
        "convert": 3, "finetune": 5, "distill": 2 + 5 * 3 + 2 * 2, "export": 5 * 4 + 3 + 2 * 2, "compress": 3 * 2 * 2, "qat": 3, "calibrate": 4,
    }  # fmt: skip
    assert {found["max_drop"] for verb, found in calls if verb == "compress"} == {1.0, 3.0}
    plain = {path.parent.name: path.read_text().split() for path in (folder / "plain").glob("*/asked")}
    assert plain["teacher-mrpc-5"] == ["org/base", "5", "mrpc"]
    assert len(plain) == 5

    onnx = folder / "picks" / "teacher-3-mrpc" / "onnx"
    onnx.mkdir()
    (onnx / "model_exits_int8.onnx").touch()
    monkeypatch.setenv("STEPS", "measure")
    monkeypatch.setenv("TIMED", "1000")
    exported |= {"picks/teacher-3-mrpc": {"onnx-int8-exits"}, **{f"plain/{name}": set() for name in plain}}
    in_torch = {"", "torch", "torch-bf16", "torch-compile"}
    measured = {}
    for verb, found in run():
        measured.setdefault(verb, []).append(found)
        for target in found.get("targets") or ():
            directory, _, runtime = target.partition("=")[2].partition(":")
            assert runtime.replace("-bf16", "") in exported[directory] | {
                each.replace("-bf16", "") for each in in_torch
            }, target
    assert {verb: len(found) for verb, found in measured.items()} == {"floor": 3, "eval": 3, "bench": 3, "report": 3}
    for scored, timed in zip(measured["eval"], measured["bench"], strict=True):
        assert set(timed["targets"]) <= set(scored["targets"])
        assert (timed["rows"], scored.get("rows")) == (1000, None)
        assert tuple(scored["batching"]) == ("length", "file:32")
        assert timed["baseline"] in {target.removesuffix(":torch") for target in timed["targets"]}
        assert not any("-5:" in target for target in timed["targets"])
    assert "teacher-3=picks/teacher-3-mrpc:onnx-int8-exits" in measured["bench"][0]["targets"]
    assert not any("exits" in target for target in measured["bench"][2]["targets"])
    assert (folder / "table.md").read_text() == "table of . mrpc sst2 stsb\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "starts"),
    [("qqp", ["small-qqp", "small", "encoder-qqp"]), ("mnli", ["encoder-mnli", "small", "encoder-mnli"])],
)
def test_the_small_encoder_learns_another_task_of_pairs_first(glue_table, monkeypatch, first, starts):
    run, _ = glue_table
    for name, value in {"FIRST": first, "ROWS": "", "STEPS": "make", "SEEDS": "4"}.items():
        monkeypatch.setenv(name, value)
    calls = run()
    assert [(verb, str(found["out"])) for verb, found in calls][:3] == [
        ("convert", "starts/small"), ("finetune", f"starts/small-{first}"), ("convert", f"starts/encoder-{first}")
    ]  # fmt: skip
    assert [Path(found["student"]).name for verb, found in calls if verb == "distill"] == starts


@pytest.mark.slow
def test_the_teacher_answers_more_rows_of_the_tasks_that_have_some(glue_table, monkeypatch):
    run, folder = glue_table
    more = folder.parent / "more"
    more.mkdir()
    for name in ("sst2.txt", "mrpc.csv", "cola.txt"):
        (more / name).touch()
    for name, value in {
        "UNLABELLED": "more",
        "ROWS": "shared searches",
        "FROM": "small",
        "STEPS": "make",
        "SEEDS": "4",
    }.items():
        monkeypatch.setenv(name, value)
    given = {
        (found.get("method", verb), found["task"]): found.get("unlabelled")
        for verb, found in run()
        if verb in ("distill", "compress")
    }
    assert given == {
        ("compress", "mrpc"): str(more / "mrpc.csv"), ("compress", "sst2"): str(more / "sst2.txt"), ("compress", "stsb"): None,
        ("kd", "mrpc"): str(more / "mrpc.csv"), ("kd", "sst2"): str(more / "sst2.txt"), ("kd", "stsb"): None,
        ("kd-hidden", "mrpc"): None, ("kd-hidden", "sst2"): None, ("kd-hidden", "stsb"): None,
    }  # fmt: skip


@pytest.mark.parametrize("first", ["mrpc", "stsb"])
def test_no_task_comes_first_whose_training_pairs_are_validation_pairs_of_another(tmp_path, first):
    assert _refusal({"FIRST": first}, folder=tmp_path).endswith("use FIRST=qqp\n")


def test_more_rows_are_in_a_folder(tmp_path):
    assert "UNLABELLED must be a folder" in _refusal({"UNLABELLED": "nowhere"}, folder=tmp_path)


def test_a_task_has_one_file_of_more_rows(tmp_path):
    for name in ("sst2.txt", "mrpc.txt", "mrpc.csv"):
        (tmp_path / name).touch()
    assert "one file for a task, got mrpc.txt and mrpc.csv" in _refusal({"UNLABELLED": "."}, folder=tmp_path)


def _refusal(variables, *, folder):
    words = [EXAMPLES / "glue-table.sh", folder / "table", "org/base", "org/small", "nyu-mll/glue"]
    ended = subprocess.run(
        words, env={**os.environ, **variables}, cwd=folder, check=False, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert not (folder / "table").exists()
    return ended.stderr


@pytest.mark.slow
def test_the_table_of_glue_makes_nothing_twice_and_writes_how_long_it_took(glue_table):
    run, folder = glue_table
    calls = run()
    times = [line.split("\t") for line in (folder / "times.tsv").read_text().splitlines()]
    steps = [Path(made) for *_, made in times]
    assert len(steps) == len(set(steps)) == len(calls) + 5  # and the plain fine-tunings, which are not ours
    assert all(seconds.isdecimal() for _, seconds, _ in times)
    for made in steps:
        (folder / made / "record.json").touch()
    # Without texts, students begin on the task from what was converted.
    begun = {str(found["student"]) for verb, found in calls if verb == "distill" and found["method"] == "kd-hidden"}
    assert begun == {"starts/shared", "starts/relaxed"}
    assert run() == []
    assert (folder / "times.tsv").read_text().splitlines() == ["\t".join(line) for line in times]
