"""A run that searches for the students of two tasks: each has a shape of its own, and rows of its own in the table."""

from types import SimpleNamespace

import pytest

from hf_albert_plus.cli import pipeline
from hf_albert_plus.cli.settings import RunSettings
from hf_albert_plus.config_files import load_config
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.search.settings import Budget
from hf_albert_plus.search.stage import PickedStudent
from hf_albert_plus.search.tried import Tried

DEPTHS = {"sst2": 1, "stsb": 2}


@pytest.fixture
def two_shapes(monkeypatch):
    """Searches that find as many of the teacher's layers as `DEPTHS` say, and of the second that it does not hold the budget."""

    def search(teacher, *, task, out, **given):
        directory = out / f"found-{DEPTHS[task.name]}"
        convert(teacher, output=directory, overrides={"num_hidden_layers": DEPTHS[task.name]}, initialise="first")
        return SimpleNamespace(is_stopped=False, name=task.name, directory=directory, budget=Budget(max_drop=1.0))

    def picked(hunt, *, out):
        name, directory = hunt.name, hunt.directory
        tried = Tried(name=name, words=f"{DEPTHS[name]} layers", directory=directory, runtime="onnx-int8", score=0.0)
        return PickedStudent(tried, directory, holds=name == "sst2", page=out / "compress.html")

    monkeypatch.setattr(pipeline, "search", search)
    monkeypatch.setattr(pipeline, "picked_student", picked)


@pytest.mark.slow
def test_students_of_several_shapes_have_rows_of_their_own(encoder_dir, data_dir, tmp_path, two_shapes, short_benches, capsys):  # fmt: skip
    settings = RunSettings(teacher_epochs=0.2, max_length=16, shapes="1x8", bench_seconds=0.01, precision="fp32")
    out = tmp_path / "out"
    table = pipeline.run_pipeline(str(encoder_dir), data=str(data_dir), tasks=list(DEPTHS), out=out, settings=settings)
    rows = {row.label: row for row in table.rows}
    assert list(rows) == [
        f"{name} {runtime}"
        for name in ("teacher", "student-sst2", "student-stsb")
        for runtime in ("torch fp32", "onnx fp32", "onnx int8")
    ]
    for label, row in rows.items():
        tasks = [task for task in DEPTHS if label.startswith("teacher") or f"-{task} " in label]
        assert (list(row.scores), bool(row.timings)) == (tasks, True), label
    for task in DEPTHS:
        # What removed layers has no length of its own: it is that of the training before it.
        card = (out / "models" / f"student-{task}" / "README.md").read_text()
        assert "sequences of up to 16 tokens in training" in card
    said = capsys.readouterr().err
    assert said.count("the nearest: nothing is shown to keep within at most 1 point lost") == 1
    assert [
        f"what was tried: {out / 'search' / task / 'compress.html'}" in said.replace("\n", "") for task in DEPTHS
    ] == [True, True]
    assert "done before" not in said


@pytest.mark.slow
def test_another_student_takes_the_place_of_the_one_that_was_found_in_less_time(encoder_dir, data_dir, tmp_path, two_shapes, short_benches, monkeypatch):  # fmt: skip
    """What was made of the teacher stays, and the same student is not exported again."""
    settings = RunSettings(teacher_epochs=0.2, max_length=16, shapes="1x8", bench_seconds=0.01, precision="fp32")

    def run():
        table = pipeline.run_pipeline(str(encoder_dir), data=str(data_dir), tasks=["sst2"], out=tmp_path, settings=settings)  # fmt: skip
        made = {path.relative_to(tmp_path): path.stat().st_mtime_ns for path in tmp_path.rglob("record.json")}
        depth = load_config(tmp_path / "models" / "student-sst2", option="a student").num_hidden_layers
        return table, made, depth

    (_, first, shallow), (_, again, _) = run(), run()
    assert first == again
    monkeypatch.setitem(DEPTHS, "sst2", 2)
    table, other, deep = run()
    assert (shallow, deep) == (1, 2)
    changed = {path.parts[0] for path in first if other[path] != first[path]}
    assert changed == {"models", "scores", "latency", "report"}
    teacher = next(path for path in first if path.parts[:2] == ("models", "teacher-sst2"))
    assert other[teacher] == first[teacher]
    assert all(row.timings for row in table.rows)


@pytest.mark.slow
def test_a_run_that_is_stopped_in_a_search_makes_nothing_of_what_it_had(encoder_dir, data_dir, tmp_path, monkeypatch):
    """The same command may find something else, which could not be exported to the same place."""
    monkeypatch.setattr(pipeline, "search", lambda *given, **named: SimpleNamespace(is_stopped=True))
    settings = RunSettings(teacher_epochs=0.1, max_length=16, shapes="1x8", precision="fp32")
    with pytest.raises(KeyboardInterrupt):
        pipeline.run_pipeline(str(encoder_dir), data=str(data_dir), tasks=["sst2"], out=tmp_path, settings=settings)
    assert not (tmp_path / "models").exists()
