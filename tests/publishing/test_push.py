"""A model directory goes to a Hub, over HTTP, and opens from there; the clients are processes of their own."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import yaml
from huggingface_hub import ModelCard, metadata_load

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.reporting.pushed_card import card_to_push
from tests.support.command_line import invoke
from tests.support.local_hub import LocalHub
from tests.support.processes import running

REPO = "user/student"
CLI = [sys.executable, "-m", "hf_albert_plus"]


@pytest.fixture
def hub():
    with LocalHub() as hub:
        yield hub


@pytest.fixture(scope="module")
def model(exported_dir, tmp_path_factory):
    """An exported classifier with a few graphs, and what must not leave the machine."""
    directory = shutil.copytree(exported_dir, tmp_path_factory.mktemp("pushed") / "model")
    (directory / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    (directory / "checkpoints" / "checkpoint-1" / "optimizer.pt").write_bytes(b"state")
    return directory


def pushed(hub, home, *words):
    """Runs the verb in a process whose Hub is this one: its exit code, and what it printed to both streams."""
    done = subprocess.run(
        [*CLI, "push", *map(str, words)], capture_output=True, text=True, timeout=240,
        env={**os.environ, **hub.environment(home), "COLUMNS": "200"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_dry_run_asks_nobody_and_writes_nothing(model, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    before = {path: path.stat().st_mtime_ns for path in model.rglob("*")}
    told = json.loads(invoke("push", model, REPO, "--dry-run", "--license", "mit", "--json").stdout)
    assert {path: path.stat().st_mtime_ns for path in model.rglob("*")} == before
    names = {file["name"]: file["bytes"] for file in told["files"]}
    assert {
        "config.json",
        "model.safetensors",
        "onnx/model.onnx",
        "onnx/model_int8.onnx",
        "record.json",
        "README.md",
    } <= set(names)
    assert names["onnx/model.onnx"] == (model / "onnx" / "model.onnx").stat().st_size
    assert told["left_out"] == [
        {"name": "checkpoints/checkpoint-1/optimizer.pt", "bytes": 5, "reason": "a checkpoint of a training"}
    ]
    assert (told["pushed"], told["revision"], told["bytes"]) == (False, "main", sum(names.values()))
    printed = invoke("push", model, REPO, "--dry-run").stdout
    assert "a checkpoint of a training" in printed
    assert f"would go to {REPO}" in printed


@pytest.mark.slow
def test_what_was_pushed_opens_and_is_not_sent_again(hub, model, tmp_path):
    code, printed, said = pushed(hub, tmp_path / "home", model, REPO, "--license", "apache-2.0", "--private")
    assert code == 0, said
    assert printed.startswith(f"{hub.url}/{REPO} at ")
    assert len(hub.commits[REPO]) == 2  # all in one commit
    files = hub.repos[REPO]
    assert files["onnx/model_int8.onnx"] == (model / "onnx" / "model_int8.onnx").read_bytes()
    assert not any("checkpoint" in name or name.endswith(".pt") for name in files)
    for name, content in files.items():
        if name.endswith((".json", ".md", ".yaml")):
            assert str(model.parent) not in content.decode(), name
            assert "/tmp/" not in content.decode(), name
    metadata = yaml.safe_load(files["README.md"].decode().split("---")[1])
    assert {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "license": "apache-2.0",
    }.items() <= metadata.items()
    assert hub.unexpected == []
    opened = """
import sys
import hf_albert_plus
from huggingface_hub import snapshot_download
from transformers import pipeline
from hf_albert_plus import Engine
from hf_albert_plus.records.record import read_record

folder = snapshot_download(sys.argv[1])
read_record(__import__("pathlib").Path(folder))
print(pipeline("text-classification", model=folder)("the film is superb .")[0]["label"])
print(Engine.load(folder, "onnx-int8", threads=1).config.id2label[0])
"""
    assert len(hub.client(tmp_path / "reader", opened, REPO).split()) == 2
    uploads = [path for method, path in hub.requests if method == "PUT"]
    code, printed, said = pushed(hub, tmp_path / "home", model, REPO, "--license", "apache-2.0", "--json")
    assert (code, json.loads(printed)["pushed"]) == (0, False), said
    assert [path for method, path in hub.requests if method == "PUT"] == uploads
    assert len(hub.commits[REPO]) == 2


SEND = """
import sys
from pathlib import Path
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.publishing.contents import contents_of
from hf_albert_plus.publishing.upload import push

try:
    print(push(contents_of(Path(sys.argv[1]), replaced={}), sys.argv[2], revision=sys.argv[3] or None, message="m").is_new)
except InvalidInput as error:
    print(error)
"""


@pytest.fixture
def small(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_a_killed_push_leaves_no_half_model_and_goes_on(hub, small, tmp_path):
    (small / "onnx").mkdir()
    for number in range(3):
        (small / "onnx" / f"model_{number}.onnx").write_bytes(b"graph" * (number + 1))
    hub.uploads_left = 1
    environment = {**os.environ, **hub.environment(tmp_path / "home")}
    command = [sys.executable, "-c", SEND, small, REPO, ""]
    with running(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as pushing:
        limit = time.monotonic() + 120
        while sum(method == "PUT" for method, _ in hub.requests) < 4 or not hub.objects:
            assert pushing.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.05)
        pushing.kill()
    assert hub.repos == {REPO: {}}
    (stored,) = hub.objects
    hub.uploads_left = None
    del hub.requests[:]
    assert hub.client(tmp_path / "home", SEND, small, REPO, "").strip() == "True"
    again = [path for method, path in hub.requests if method == "PUT"]
    assert len(again) == 3
    assert f"/lfs/{stored}" not in again
    assert {name: len(content) for name, content in hub.repos[REPO].items()} == {
        path.relative_to(small).as_posix(): path.stat().st_size for path in small.rglob("*") if path.is_file()
    }


def test_a_branch_of_its_own(hub, small, tmp_path):
    assert hub.client(tmp_path / "home", SEND, small, REPO, "v2").strip() == "True"
    assert hub.client(tmp_path / "home", SEND, small, REPO, "v2").strip() == "False"
    assert hub.repos == {REPO: {}}
    assert hub.commits[REPO][hub.branches[REPO]["v2"]]["model.safetensors"] == b"weights"


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        ((401, "Invalid username or password."), "push needs a token that the Hub knows"),
        ((403, "Forbidden: you cannot write"), f"the token must be allowed to write to {REPO}"),
        ((None, ""), "push needs a Hub that answers"),
    ],
)
def test_a_push_that_is_refused_says_what_to_do(small, tmp_path, refusal, message):
    with LocalHub() as hub:
        hub.refusal = refusal
        if refusal[0] is not None:
            said = hub.client(tmp_path / "home", SEND, small, REPO, "")
    if refusal[0] is None:
        said = hub.client(tmp_path / "home", SEND, small, REPO, "")
    assert said.startswith(message)
    assert ("hf auth login" if refusal[0] else "give the same command again") in said
    assert "hf_local" not in said


def test_a_card_by_hand_stays(model, tmp_path):
    copy = shutil.copytree(model, tmp_path / "model")
    (copy / "README.md").write_text("---\nlicense: mit\n---\nBy hand.\n")
    assert card_to_push(copy, REPO, said={}) == {}
    with pytest.raises(InvalidInput, match="--license is for a card that is written from records, got .*README.md"):
        card_to_push(copy, REPO, said={"license": "mit"})


def test_the_cards_metadata_are_huggingface_hubs_own(hub, model, tmp_path):
    """They round-trip through its classes, and its endpoint for them has nothing to say."""
    said = {"language": "en", "base_model": "google-bert/bert-base-uncased"}
    card = card_to_push(model, REPO, said=said)["README.md"].decode()
    (tmp_path / "README.md").write_text(card)
    metadata = metadata_load(tmp_path / "README.md")
    assert ModelCard(card).data.to_dict() == metadata
    assert {
        **said,
        "base_model_relation": "finetune",
        "pipeline_tag": "text-classification",
    }.items() <= metadata.items()
    assert "onnx" in metadata["tags"]
    validate = (
        "import sys; from huggingface_hub import ModelCard; ModelCard.load(sys.argv[1]).validate(); print('valid')"
    )
    assert hub.client(tmp_path / "reader", validate, tmp_path / "README.md") == "valid\n"
