"""Work that a killed run left is gone on with while it is whole. What is damaged is set aside with a word, and done again."""

import json
import os

import pytest

from hf_albert_plus.records.stage import mark, run_stage, taken_up
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training import loop as training
from hf_albert_plus.training.callbacks import Checkpoints, last_complete
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings
from tests.support.stopped_runs import Stops

DEEP = "[" * 5000 + "]" * 5000


def damage(path, how):
    """Damages a file, or removes it."""
    size = path.stat().st_size
    content = {
        "cut": path.read_bytes()[: size // 2],
        "empty": b"",
        "zeros": bytes(size),
        "garbage": os.urandom(size),
        "a list": b"[1, 2]",
        "no number": b'{"files": {"weights": {"bytes": NaN, "sha256": ""}}, "facts": null}',
        "another shape": b'{"files": {"weights": 5}, "facts": null}',
        "deep": DEEP.encode(),
    }
    path.unlink() if how == "gone" else path.write_bytes(content[how])


KINDS = ["cut", "empty", "zeros", "garbage", "gone"]


@pytest.mark.parametrize("how", KINDS)
def test_work_counts_while_its_files_are_what_was_written(tmp_path, how, capsys):
    (tmp_path / "weights").write_bytes(b"w" * 100)
    mark(tmp_path / "done.json", [tmp_path / "weights"], facts={"score": 1.5})
    assert taken_up(tmp_path / "done.json", shape=dict[str, float]) == {"score": 1.5}
    assert capsys.readouterr().err == ""
    damage(tmp_path / "weights", how)
    assert taken_up(tmp_path / "done.json", shape=dict[str, float]) is None
    said = "is missing" if how == "gone" else "was changed"
    assert (
        f"kept work must be what was written, got {tmp_path / 'weights'}, which {said}; it is"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("how", [*KINDS, "a list", "no number", "another shape", "deep"])
def test_a_mark_that_cannot_be_read_marks_nothing(tmp_path, how, capsys):
    (tmp_path / "weights").write_bytes(b"w" * 100)
    mark(tmp_path / "done.json", [tmp_path / "weights"])
    damage(tmp_path / "done.json", how)
    assert taken_up(tmp_path / "done.json") is None
    assert ("it is done again" in capsys.readouterr().err) == (how != "gone")


def test_facts_of_another_shape_are_none(tmp_path, capsys):
    mark(tmp_path / "done.json", [], facts=["a"])
    assert taken_up(tmp_path / "done.json", shape=dict[str, int]) is None
    assert "it is done again" in capsys.readouterr().err


def test_the_mark_is_written_after_the_files_are_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("hf_albert_plus.records.stage.sync", lambda path: synced.append(path.name))
    monkeypatch.setattr("hf_albert_plus.records.stage.write_json", lambda path, content: synced.append(path.name))
    (tmp_path / "inner").mkdir()
    for name in ("weights", "inner/shard"):
        (tmp_path / name).touch()
    mark(tmp_path / "complete", [tmp_path / "weights", tmp_path / "inner" / "shard"])
    assert synced[-1] == "complete"
    assert {"weights", "shard", "inner", tmp_path.name} == set(synced[:-1])


def test_a_stage_is_on_the_disk_before_its_record_and_its_name(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor):
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def replaced(source, target):
        done.append(f"-> {os.path.basename(target)}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)

    def work(directory):
        (directory / "weights").write_text("w")
        return {}

    run_stage("test", tmp_path / "out", settings={}, parents={}, work=work)
    assert done.index("weights") < done.index("-> record.json") < done.index("-> out")
    assert done[-1] == tmp_path.name
    assert done[done.index("-> record.json") + 1] == "out.partial"


# Checkpoints


@pytest.fixture
def stopped(encoder_dir, data_dir, tmp_path, monkeypatch):
    """A run that was stopped with checkpoints of its third and fourth step, and one that goes on."""
    settings = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")

    def run(out=tmp_path / "out"):
        return finetune(
            str(encoder_dir), data=str(data_dir), task=get_task("sst2"), output=out, settings=settings, checkpoint_seconds=0
        )  # fmt: skip

    whole = run(tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(training, "Checkpoints", Stops)
        patched.setattr(Stops, "steps", [4])
        with pytest.raises(KeyboardInterrupt):
            run()
    checkpoints = tmp_path / "out.partial" / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == ["checkpoint-3", "checkpoint-4"]
    yield checkpoints, run
    assert run().files == whole.files
    assert run().reused


FILES = ("model.safetensors", "optimizer.pt", "rng_state.pth", "trainer_state.json", "scheduler.pt", "running_losses_0.json", "complete")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "how"), [*((name, "cut") for name in FILES), ("optimizer.pt", "zeros"), ("trainer_state.json", "gone"), ("complete", "gone")]
)  # fmt: skip
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_used(stopped, name, how, capsys):
    checkpoints, run = stopped
    damage(checkpoints / "checkpoint-4" / name, how)
    capsys.readouterr()
    assert run().result["resumed_at_step"] == 3
    said = capsys.readouterr().err
    if (name, how) != ("complete", "gone"):  # that one is half-written
        assert f"a damaged checkpoint is set aside as {checkpoints / 'damaged-checkpoint-4'}: " in said


@pytest.mark.slow
def test_with_no_whole_checkpoint_it_begins_again(stopped, capsys):
    """As checkpoints of versions are that listed no files."""
    checkpoints, run = stopped
    for number in (3, 4):
        damage(checkpoints / f"checkpoint-{number}" / "complete", "empty")
    assert run().result["resumed_at_step"] == 0
    assert capsys.readouterr().err.count("a damaged checkpoint is set aside") == 2


@pytest.mark.slow
def test_what_is_no_checkpoint_is_left_alone(stopped):
    checkpoints, _ = stopped
    (checkpoints / "checkpoint-best").mkdir()
    (checkpoints / "checkpoint-9").write_text("half")
    assert last_complete(checkpoints) == checkpoints / "checkpoint-4"
    assert not (checkpoints / "checkpoint-9").exists()


def test_the_newest_two_checkpoints_are_kept(tmp_path):
    class State:
        global_step = 0

    class Arguments:
        output_dir = str(tmp_path)

    for step in (8, 9, 10, 11):
        State.global_step = step
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "weights").touch()
        Checkpoints(0).keep_newest(Arguments, State)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-11"]
    assert list(json.loads((tmp_path / "checkpoint-11" / "complete").read_text())["files"]) == ["weights"]


# What a stage finds in OUT.partial


@pytest.mark.parametrize("name", ["stage.json", "record.json"])
@pytest.mark.parametrize("how", [*KINDS, "a list", "no number", "another shape", "deep"])
def test_a_damaged_identity_or_record_of_a_partial_directory_counts_as_none(tmp_path, name, how):
    def work(directory):
        (directory / "weights").write_text("w")
        return {"worked": True}

    def run():
        return run_stage("test", tmp_path / "out", settings={}, parents={}, work=work, resumable=True)

    run()
    os.rename(tmp_path / "out", tmp_path / "out.partial")
    if name == "stage.json":
        (tmp_path / "out.partial" / "record.json").rename(tmp_path / "out.partial" / "stage.json")
    damage(tmp_path / "out.partial" / name, how)
    assert run().result == {"worked": True}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["record.json", "weights"]


def test_files_damaged_between_the_record_and_the_name_are_made_again(tmp_path):
    def work(directory):
        (directory / "weights").write_text("w" * 10)
        return {}

    whole = run_stage("test", tmp_path / "out", settings={}, parents={}, work=work)
    os.rename(tmp_path / "out", tmp_path / "out.partial")
    damage(tmp_path / "out.partial" / "weights", "cut")
    assert run_stage("test", tmp_path / "out", settings={}, parents={}, work=work).files == whole.files
