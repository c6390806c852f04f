"""The local Hub against the real clients: what they push is what they get back, and what is wrong is refused."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertModel

from tests.support.local_hub import LocalHub
from tests.support.small_models import SMALL, randomise

REPO = "user/tiny-bert"


@pytest.mark.slow
def test_weights_come_back_exactly(tmp_path):
    model = randomise(BertModel(BertConfig(**SMALL)))
    model.save_pretrained(tmp_path / "local")
    push = """
import sys
from transformers import BertModel
BertModel.from_pretrained(sys.argv[1]).push_to_hub(sys.argv[2])
"""
    load = """
import sys
from transformers import AutoModel
AutoModel.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])
"""
    with LocalHub() as hub:
        hub.client(tmp_path / "pusher", push, tmp_path / "local", REPO)
        assert set(hub.repos[REPO]) == {"README.md", "config.json", "model.safetensors"}
        sha = hashlib.sha256(hub.repos[REPO]["model.safetensors"]).hexdigest()
        assert [path for method, path in hub.requests if method == "PUT"] == [f"/lfs/{sha}"]
        assert list(hub.objects) == [sha]
        hub.client(tmp_path / "loader", load, REPO, tmp_path / "loaded")

    assert hub.unexpected == []
    loaded = load_file(tmp_path / "loaded" / "model.safetensors")
    assert loaded.keys() == model.state_dict().keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.slow
def test_every_commit_stays_readable(tmp_path):
    script = """
import json, sys
from pathlib import Path
from huggingface_hub import HfApi, hf_hub_download

api, repo, folder = HfApi(), sys.argv[1], Path("folder")
(folder / "sub").mkdir(parents=True)
api.create_repo(repo)
(folder / "config.json").write_text("1")
(folder / "sub" / "weights.safetensors").write_bytes(b"weights")
first = api.upload_folder(repo_id=repo, folder_path=folder).oid
again = api.upload_folder(repo_id=repo, folder_path=folder).oid
(folder / "config.json").write_text("2")
(folder / "sub" / "weights.safetensors").rename(folder / "moved.safetensors")
second = api.upload_folder(repo_id=repo, folder_path=folder, delete_patterns="sub/*").oid
api.create_repo(repo, exist_ok=True)

texts = [Path(hf_hub_download(repo, "config.json", revision=sha)).read_text() for sha in (first, second, "main")]
print(json.dumps([first == again, texts, api.list_repo_files(repo, revision=first), api.list_repo_files(repo)]))
"""
    with LocalHub() as hub:
        unchanged, texts, before, now = json.loads(hub.client(tmp_path, script, REPO))

    assert unchanged
    assert texts == ["1", "2", "2"]
    assert before == ["config.json", "sub/weights.safetensors"]
    assert now == ["config.json", "moved.safetensors"]
    assert sum(method == "PUT" for method, _ in hub.requests) == 1
    assert hub.unexpected == []


def test_corrupted_upload_is_refused(tmp_path):
    script = """
import sys
from huggingface_hub import CommitOperationAdd, HfApi

api, repo = HfApi(), sys.argv[1]
api.create_repo(repo)
operation = CommitOperationAdd("model.safetensors", b"weights")
operation.upload_info.sha256 = bytes(32)
try:
    api.create_commit(repo, [operation], commit_message="corrupted")
except RuntimeError as error:
    print(error.__cause__.response.status_code)
"""
    with LocalHub() as hub:
        assert hub.client(tmp_path, script, REPO) == "400\n"
    assert ("PUT", f"/lfs/{'0' * 64}") in hub.requests
    assert hub.repos == {REPO: {}}
    assert hub.objects == {}


@pytest.mark.slow
def test_absent_repo_and_unknown_request_are_errors(tmp_path):
    script = """
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from transformers import AutoConfig

for ask in (AutoConfig.from_pretrained, HfApi().model_info):
    try:
        ask("user/absent")
    except OSError as error:
        print(isinstance(error, RepositoryNotFoundError) or isinstance(error.__cause__, RepositoryNotFoundError))
try:
    HfApi().list_repo_refs("user/absent")
except HfHubHTTPError as error:
    print(error.response.status_code)
"""
    with LocalHub() as hub:
        assert hub.client(tmp_path, script).split() == ["True", "True", "501"]
    assert hub.unexpected == [("GET", "/api/models/user/absent/refs")]
