"""What of a model directory would go to the Hub, and what stays here and why."""

import json
import shutil

import pytest

from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.publishing.contents import check_directory, contents_of
from hf_albert_plus.records.record import fingerprint, read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings
from tests.support.command_line import invoke

STAYS = {
    "checkpoints/checkpoint-4/model.safetensors": "a checkpoint of a training",
    "checkpoint-9/model.safetensors": "a checkpoint of a training",
    "optimizer.pt": "the state of a training",
    "rng_state_0.pth": "the state of a training",
    "training_args.bin": "the state of a training",
    "trainer_state.json": "the state of a training",
    "runs/0-task/events.out.tfevents.17.here.0": "a log",
    "logs/today.txt": "a log",
    "train.log": "a log",
    ".0f3a.tmp": "half a file",
    "weights.pkl": "a pickle",
    "pytorch_model.bin": "a pickle",
    ".env": "hidden",
    ".git/config": "hidden",
}
GOES = {"config.json", "model.safetensors", "tokenizer.json", "task.json", "openvino/openvino_model.bin", ".eval_results/glue-sst2.yaml", "README.md", "LICENSE"}  # fmt: skip


def written(directory, names):
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("{}")


def test_of_a_directory_without_a_record(tmp_path):
    written(tmp_path, [*STAYS, *GOES])
    contents = contents_of(tmp_path, replaced={"README.md": b"another"})
    assert {file.name for file in contents.files} == GOES
    left = {each.name: each.reason for each in contents.left_out}
    assert set(left) == set(STAYS)
    assert all(left[name].startswith(reason) for name, reason in STAYS.items())
    (readme,) = [file for file in contents.files if file.name == "README.md"]
    assert (readme.source, readme.size) == (b"another", 7)
    assert contents.size == 2 * (len(GOES) - 1) + 7


@pytest.fixture(scope="module")
def trained(encoder_dir, data_dir, tmp_path_factory):
    """A directory whose record has absolute paths and names a log."""
    out = tmp_path_factory.mktemp("trained") / "model"
    settings = TrainSettings(epochs=0.2, batch_size=8, max_length=32, precision="fp32", report_to=("tensorboard",))
    finetune(str(encoder_dir), data=str(data_dir), task=get_task("sst2"), output=out, settings=settings)
    return out


@pytest.mark.slow
def test_the_record_names_what_goes_and_no_path_of_the_machine(trained, tmp_path):
    (trained / "notes.txt").write_text("mine")
    contents = contents_of(trained, replaced={})
    sources = {file.name: file.source for file in contents.files}
    record = json.loads(sources["record.json"])
    before = json.loads((trained / "record.json").read_text())
    assert str(trained.parent) not in sources["record.json"].decode()
    assert record["parents"]["model"] == {"path": "made-bert", "sha256": before["parents"]["model"]["sha256"]}
    assert set(before["files"]) - set(record["files"]) == {name for name in before["files"] if name.startswith("runs/")}
    assert {left.name: left.reason for left in contents.left_out if left.name == "notes.txt"} == {"notes.txt": "record.json does not name it: --include sends it"}  # fmt: skip
    # What arrives is a directory that its record answers for.
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(source if isinstance(source, bytes) else source.read_bytes())
    assert read_record(tmp_path).files == record["files"]
    assert fingerprint(tmp_path)
    also = contents_of(trained, replaced={}, include=["notes.*"])
    assert "notes.txt" in {file.name for file in also.files}
    (trained / "notes.txt").unlink()


def test_what_is_asked_for_is_never_a_checkpoint(tmp_path):
    written(tmp_path, ["config.json", "optimizer.pt"])
    assert {file.name for file in contents_of(tmp_path, replaced={}, include=["*"]).files} == {"config.json"}


def test_a_pattern_of_nothing_is_refused(trained):
    with pytest.raises(InvalidInput, match="--include must match a file of the directory, got 'LICENCE'"):
        contents_of(trained, replaced={}, include=["LICENCE"])


def test_a_file_that_was_changed_is_refused(trained, tmp_path):
    copy = shutil.copytree(trained, tmp_path / "copy")
    (copy / "config.json").write_text("{}")
    with pytest.raises(StageConflict, match="config.json differs from its record"):
        contents_of(copy, replaced={})


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("nowhere", None, "push needs a model directory, with a config.json"),
        ("data", ["rows.csv"], "push needs a model directory"),
        ("out.partial", ["config.json"], "which a stage is still making"),
        ("copied", ["config.json", "stage.json"], "which a stage is still making"),
    ],
)
def test_what_is_no_finished_model_is_refused(tmp_path, name, files, message):
    if files is not None:
        written(tmp_path / name, files)
    with pytest.raises(InvalidInput, match=message):
        check_directory(tmp_path / name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a b",), "REPO_ID must be OWNER/NAME, got 'a b'"),
        (("a/b/c",), "REPO_ID must be OWNER/NAME"),
        (("a/b", "--revision", " "), "--revision must be the name of a branch"),
        (("a/b", "--license", "Apache 2"), "--license must be a licence's name on the Hub, got 'Apache 2'; use --license apache-2.0"),
        (("a/b", "--language", "english"), "--language must be a code of ISO 639"),
        (("a/b", "--base-model", "bert"), "--base-model must be a model on the Hub"),
        (("a/b",), "push needs the Hub, got HF_HUB_OFFLINE"),
    ],
)  # fmt: skip
def test_what_cannot_be_pushed_is_said_first(trained, words, message, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InvalidInput, match=message):
        invoke("push", trained, *words)


def test_a_push_without_a_token_says_how_to_log_in(trained, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(
        InvalidInput, match="push needs a token of the Hub, got none; log in with hf auth login, or set HF_TOKEN"
    ):
        invoke("push", trained, "user/model")
