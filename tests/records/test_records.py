"""Stages: whole or absent, reused only while unchanged, resumed after kill -9."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.records.files import file_sha256, read_json, write_json
from hf_albert_plus.records.record import carried_record, fingerprint, open_record, read_record, training_record
from hf_albert_plus.records.stage import discard, run_stage
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings
from tests.support.processes import running


def _stage(output: Path, *, settings=None, calls=None, parents=None):
    def work(directory: Path):
        if calls is not None:
            calls.append(directory)
        (directory / "weights").write_text("w" * 100)
        return {"score": 1}

    return run_stage("test", output, settings=settings or {"a": 1}, parents=parents or {}, work=work)


def test_a_stage_writes_its_record_and_is_reused(tmp_path):
    calls = []
    record = _stage(tmp_path / "out", calls=calls)
    again = _stage(tmp_path / "out", calls=calls)
    assert len(calls) == 1
    assert not record.reused
    assert again.reused
    assert again.result == {"score": 1}
    content = json.loads((tmp_path / "out" / "record.json").read_text())
    assert content["files"] == {"weights": {"bytes": 100, "sha256": file_sha256(tmp_path / "out" / "weights")}}
    assert content["versions"]["transformers"].startswith("5.")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_other_settings_are_a_conflict_that_names_them(tmp_path):
    _stage(tmp_path / "out")
    with pytest.raises(StageConflict, match=r"settings.a: 1 there, 2 asked for"):
        _stage(tmp_path / "out", settings={"a": 2})


def test_a_parent_is_its_content_not_its_path(tmp_path):
    parents = [{"model": {"path": path, "sha256": "0" * 64}} for path in ("here", "there")]
    _stage(tmp_path / "out", parents=parents[0])
    assert _stage(tmp_path / "out", parents=parents[1]).reused
    with pytest.raises(StageConflict, match="parents.model"):
        _stage(tmp_path / "out", parents={"model": {"path": "here", "sha256": "1" * 64}})


@pytest.mark.parametrize("damage", ["truncate", "remove"])
def test_a_changed_file_is_never_reused(tmp_path, damage):
    _stage(tmp_path / "out")
    path = tmp_path / "out" / "weights"
    path.write_text("w") if damage == "truncate" else path.unlink()
    with pytest.raises(StageConflict, match="weights"):
        _stage(tmp_path / "out")
    with pytest.raises(StageConflict, match="weights"):
        read_record(tmp_path / "out")


def test_a_foreign_directory_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    with pytest.raises(StageConflict, match="was not made by this command"):
        _stage(tmp_path / "out")
    assert (tmp_path / "out" / "thesis.tex").read_text() == "precious"


def test_a_failed_stage_leaves_no_directory_and_starts_clean(tmp_path):
    def fail(directory: Path):
        (directory / "half").write_text("x")
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError):
        run_stage("test", tmp_path / "out", settings={}, parents={}, work=fail)
    assert not (tmp_path / "out").exists()
    _stage(tmp_path / "out")
    assert not (tmp_path / "out" / "half").exists()


def test_a_stage_killed_before_it_got_its_name_is_not_run_again(tmp_path):
    calls = []
    _stage(tmp_path / "out", calls=calls)
    (tmp_path / "out").rename(tmp_path / "out.partial")
    (tmp_path / "out.partial" / "checkpoints").mkdir()
    assert _stage(tmp_path / "out", calls=calls).result == {"score": 1}
    assert len(calls) == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["record.json", "weights"]


def test_checkpoints_of_other_settings_are_not_thrown_away(tmp_path):
    mark = tmp_path / "out.partial" / "checkpoints" / "checkpoint-7" / "complete"

    def stops(directory: Path):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        raise RuntimeError

    def finishes(directory: Path):
        return {"found": mark.exists()}

    def run(settings, work):
        return run_stage("test", tmp_path / "out", settings=settings, parents={}, work=work, resumable=True)

    with pytest.raises(RuntimeError):
        run({"a": 1}, stops)
    with pytest.raises(StageConflict, match=r"out.partial has checkpoints of .*\(settings.a: 1 there, 2 asked for\)"):
        run({"a": 2}, finishes)
    mark.with_name("half").touch()
    assert run({"a": 1}, finishes).result == {"found": True}


def test_a_run_without_a_whole_checkpoint_is_begun_anew_with_other_settings(tmp_path):
    def stops(directory: Path):
        (directory / "checkpoints" / "checkpoint-7").mkdir(parents=True)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run_stage("test", tmp_path / "out", settings={"a": 1}, parents={}, work=stops, resumable=True)
    assert _stage(tmp_path / "out", settings={"a": 2}).result == {"score": 1}


def test_an_output_inside_its_source_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="--out must lie outside"):
        _stage(tmp_path / "inner" / "out", parents={"model": {"path": str(tmp_path), "sha256": "0"}})
    assert list(tmp_path.iterdir()) == []


def test_a_kill_while_checkpoints_are_removed_leaves_none_by_name(tmp_path, monkeypatch):
    (tmp_path / "checkpoints" / "checkpoint-1").mkdir(parents=True)

    def killed(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "hf_albert_plus.records.stage.shutil.rmtree", lambda *args, ignore_errors=False: ignore_errors or killed()
    )
    with pytest.raises(KeyboardInterrupt):
        discard(tmp_path / "checkpoints")
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.slow
def test_weights_that_are_not_finite_are_never_saved(tmp_path, encoder_dir, data_dir):
    import torch
    from transformers import AutoModel, AutoTokenizer

    from hf_albert_plus.tasks.glue import get_task
    from hf_albert_plus.training.finetuning import finetune
    from hf_albert_plus.training.settings import TrainSettings

    model = AutoModel.from_pretrained(encoder_dir)
    with torch.no_grad():
        model.encoder.layer[0].output.dense.bias.fill_(3e38)  # finite, and beyond it in every sum
    model.save_pretrained(tmp_path / "broken")
    AutoTokenizer.from_pretrained(encoder_dir).save_pretrained(tmp_path / "broken")
    settings = TrainSettings(epochs=0.2, batch_size=8, max_length=32, precision="fp32")
    with pytest.raises(InvalidInput, match="losses and weights finite"):
        finetune(
            str(tmp_path / "broken"),
            data=str(data_dir),
            task=get_task("sst2"),
            output=tmp_path / "out",
            settings=settings,
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken"]


@pytest.mark.slow
def test_two_processes_do_not_share_a_stage(tmp_path):
    def nested(directory: Path):
        code = (
            "import sys; from pathlib import Path; from hf_albert_plus.records.stage import run_stage\n"
            "run_stage('test', Path(sys.argv[1]), settings={}, parents={}, work=lambda d: {})"
        )
        other = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], capture_output=True, text=True)
        return {"said": other.stderr, "code": other.returncode}

    result = run_stage("test", tmp_path / "out", settings={}, parents={}, work=nested).result
    assert result["code"] != 0
    assert "another process is writing" in result["said"]


def test_the_fingerprint_sees_content_and_not_the_card(tmp_path):
    (tmp_path / "model").write_text("one")
    first = fingerprint(tmp_path)
    (tmp_path / "README.md").write_text("card")
    assert fingerprint(tmp_path) == first
    (tmp_path / "model").write_text("two")
    assert fingerprint(tmp_path) != first


def test_json_is_strict(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"score": float("nan")})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "half.json").write_text('{"a": ')
    with pytest.raises(InvalidInput, match="must be a JSON file"):
        read_json(tmp_path / "half.json", what="--scores")


_TRAIN = """
import sys, time
import torch
from pathlib import Path
from transformers import TrainerCallback
import hf_albert_plus.training.loop as training
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings

torch.set_num_threads(1)
encoder, data, out, pause = sys.argv[1:]
class Slow(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(float(pause))
plain = training.Trainer.__init__
def slowed(self, *args, callbacks=(), **options):
    plain(self, *args, callbacks=[*callbacks, Slow()], **options)
training.Trainer.__init__ = slowed
settings = TrainSettings(epochs=5, batch_size=8, learning_rate=1e-3, max_length=32, precision="fp32")
record = finetune(encoder, data=data, task=get_task("sst2"), output=Path(out), settings=settings, checkpoint_seconds=0.3)
print("resumed at", record.result["resumed_at_step"])
"""


def _step(mark: Path) -> int:
    return int(mark.parent.name.removeprefix("checkpoint-"))


@pytest.mark.slow
def test_training_killed_midway_resumes_to_the_same_weights(tmp_path, encoder_dir, data_dir):
    def command(out: Path, pause: float):
        return [sys.executable, "-c", _TRAIN, str(encoder_dir), str(data_dir), str(out), str(pause)]

    killed = tmp_path / "killed"
    checkpoints = tmp_path / "killed.partial" / "checkpoints"
    with running(command(killed, 0.1), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 600
        # In its second epoch, whose order of batches the resumed process has to draw again: an epoch has 12 steps.
        while not any(_step(path) > 12 for path in checkpoints.glob("*/complete")) and time.monotonic() < deadline:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
        process.kill()
    assert not killed.exists()
    newest = max(checkpoints.glob("*/complete"), key=_step).parent
    assert _step(newest / "complete") > 12
    # What a kill in the middle of writing leaves: a newer checkpoint without its mark.
    half = checkpoints / "checkpoint-9999"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    done = subprocess.run(command(killed, 0), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"resumed at {newest.name.removeprefix('checkpoint-')}"
    assert not (killed / "checkpoints").exists()
    settings = TrainSettings(epochs=5, batch_size=8, learning_rate=1e-3, max_length=32, precision="fp32")
    task, threads = get_task("sst2"), torch.get_num_threads()
    torch.set_num_threads(1)
    finetune(str(encoder_dir), data=str(data_dir), task=task, output=tmp_path / "whole", settings=settings)
    torch.set_num_threads(threads)
    one, other = load_file(killed / "model.safetensors"), load_file(tmp_path / "whole" / "model.safetensors")
    for name, tensor in one.items():
        assert tensor.equal(other[name]), name


# Records of another shape


def _written(tmp_path, change):
    _stage(tmp_path / "out")
    path = tmp_path / "out" / "record.json"
    content = json.loads(path.read_text())
    changed = change(content)
    path.write_text(changed if isinstance(changed, str) else json.dumps(content if changed is None else changed))
    return tmp_path / "out"


CHANGES = {
    "a list": (lambda record: [], "object"),
    "no stage": (lambda record: record.pop("stage") and None, "stage: Field required"),
    "files as a list": (lambda record: record.update(files=[]), r"files: Input should be an? (object|valid dictionary)"),
    "a file without its hash": (lambda record: record["files"]["weights"].pop("sha256") and None, r"files.weights.sha256: Field required"),
    "a parent as text": (lambda record: record.update(parents={"model": "here"}), r"parents.model: Input should be"),
    "a result as text": (lambda record: record.update(result="good"), "result: Input should be"),
    "seconds as text": (lambda record: record.update(seconds="1"), "seconds: Input should be a valid number"),
    "NaN": (lambda record: json.dumps({**record, "seconds": float("nan")}), "NaN is no number of JSON"),
    "deep": (lambda record: "[" * 5000 + "]" * 5000, "nests too deeply"),
    "carried as text": (lambda record: record.update(stage="export", result={"trained": "yes"}), r"result.trained \(Input should be"),
    "calibrated as text": (lambda record: record.update(stage="export", result={"calibrated": "yes"}), r"result.calibrated \(Input should be"),
    "carried without settings": (
        lambda record: record.update(stage="export", result={"trained": {"stage": "finetune"}}), r"result.trained \(settings: Field required",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", [read_record, open_record, training_record, carried_record, _stage])
def test_a_record_of_another_shape_is_refused_with_its_place(tmp_path, change, reader):
    changed, said = CHANGES[change]
    out = _written(tmp_path, changed)
    with pytest.raises(
        InvalidInput,
        match=rf"the record of a stage .*record.json.*{said}.*; make .*out again, or remove record.json from it",
    ):
        reader(out)


def test_fields_of_a_later_version_are_left_out(tmp_path):
    out = _written(tmp_path, lambda record: record.update(of_a_later_version=[1]))
    assert read_record(out).result == {"score": 1}
    assert _stage(out).reused


def test_engines_and_cards_read_records_by_their_shape(tmp_path, exported_dir):
    import shutil

    from hf_albert_plus.engines.engine import Engine
    from hf_albert_plus.eval.reporting.pretraining_card import pretraining_facts

    shutil.copytree(exported_dir, tmp_path / "model")
    (tmp_path / "model" / "record.json").write_text('{"files": []}')
    for read in (
        lambda: Engine.load(tmp_path / "model", "onnx"), lambda: pretraining_facts(tmp_path / "model", scores=[]),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match="the record of a stage must have the shape of one"):
            read()
