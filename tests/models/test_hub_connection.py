"""A mistyped path is told at once, whether the Hub answers, refuses or is silent; a Hub id opens as ever."""

import socket
import subprocess
import sys
import time
from os import environ
from pathlib import Path

import pytest
from transformers import BertConfig

from hf_albert_plus import hub_connection
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.hub_connection import check_data, check_model
from tests.support.local_hub import LocalHub
from tests.support.small_models import SMALL


@pytest.fixture
def silent():
    """A Hub that takes a connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def refusing():
    """A Hub where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"http://127.0.0.1:{port}"


@pytest.fixture(autouse=True)
def nothing_cached(monkeypatch, tmp_path):
    monkeypatch.setattr(hub_connection, "_answers", {})
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_ETAG_TIMEOUT", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["silent", "refusing"])
def test_a_mistyped_path_is_told_within_seconds(kind, request, monkeypatch):
    endpoint = request.getfixturevalue(kind)
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    started = time.monotonic()
    with pytest.raises(
        InvalidInput, match=r"--model must be .*, got 'nowhere' \(no such path, and .*\); check the path"
    ):
        check_model("nowhere", option="--model")
    assert time.monotonic() - started < 3
    asked = []
    monkeypatch.setattr(hub_connection, "_ask", lambda *page: asked.append(page))
    with pytest.raises(InvalidInput, match=r"--data must be .*, got 'user/data' \(no such path"):
        check_data("user/data")
    assert asked == []


def test_what_is_no_id_is_told_without_a_look(silent, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", silent)
    with pytest.raises(InvalidInput, match=r"'a/b/c' \(no such path\)"):
        check_model("a/b/c", option="--model")
    assert hub_connection._answers == {}


def test_offline_asks_nobody(silent, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", silent)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InvalidInput, match="not in the Hub's cache"):
        check_model("user/model", option="--model")
    assert hub_connection._answers == {}


@pytest.mark.parametrize("offline", ["0", "1"])
def test_what_is_cached_or_there_is_left_to_the_libraries(silent, offline, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_ENDPOINT", silent)
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    (tmp_path / "home" / "hub" / "models--user--model").mkdir(parents=True)
    (tmp_path / "home" / "datasets" / "user___data").mkdir(parents=True)
    Path("here").mkdir()
    check_model("user/model", option="--model")
    check_model("here", option="--model")
    check_data("user/data")
    assert hub_connection._answers == {}


@pytest.mark.slow
def test_a_hub_that_answers_is_asked_by_the_libraries(tmp_path):
    """Of what is there they open it, of what is not they say so."""
    script = """
import sys
from transformers import BertConfig
from hf_albert_plus.config_files import load_config

BertConfig.from_pretrained(sys.argv[1]).push_to_hub("user/tiny-bert")
print(load_config("user/tiny-bert", option="--model").hidden_size)
try:
    load_config("user/absent", option="--model")
except ValueError as error:
    print(error)
"""
    BertConfig(**SMALL).save_pretrained(tmp_path / "local")
    with LocalHub() as hub:
        size, said = hub.client(tmp_path / "home", script, tmp_path / "local").splitlines()
    assert size == str(SMALL["hidden_size"])
    assert "--model must be a model directory" in said
    assert "user/absent is not a local folder" in said
    assert hub.unexpected == []


def test_the_command_line_says_it_too(refusing, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hf_albert_plus", "finetune", "--model", "nowhere", "--data", "nyu-mll/glue", "--task", "sst2", "--out", "z"],
        capture_output=True, text=True, env={**environ, "HF_ENDPOINT": refusing}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: --model must be a model directory that from_pretrained opens, or a Hub id, got 'nowhere'"
    )
