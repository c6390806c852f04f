"""The commit of the code: of a checkout, a worktree and packed branches as git itself says it, and of an installation as pip noted it."""

import json
import shutil
import subprocess

import pytest

from hf_albert_plus.records import code_commit
from hf_albert_plus.records.code_commit import NAME, checked_out, commit_of
from hf_albert_plus.records.record import versions
from hf_albert_plus.records.stage import run_stage

COMMIT = "0123456789abcdef" * 2 + "01234567"
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="it is compared with git")


def git(folder, *words):
    """What git says in a folder, without anybody's configuration."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    """A repository with two commits and the package in it, on the branch `room/work`."""
    folder = tmp_path / "checkout"
    (folder / "hf_albert_plus").mkdir(parents=True)
    git(folder, "init", "--quiet")
    for content in ("one", "two"):
        (folder / "hf_albert_plus" / "__init__.py").write_text(content)
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", content)
    git(folder, "checkout", "--quiet", "-b", "room/work")
    return folder


@needs_git
def test_a_checkout_has_the_commit_that_git_says(checkout):
    package = checkout / "hf_albert_plus"
    assert commit_of(package) == git(checkout, "rev-parse", "HEAD")
    git(checkout, "checkout", "--quiet", "--detach", "HEAD~1")
    assert commit_of(package) == git(checkout, "rev-parse", "HEAD")
    assert commit_of(package) != git(checkout, "rev-parse", "room/work")


@needs_git
def test_packed_branches_are_found(checkout):
    git(checkout, "tag", "--annotate", "--message", "t", "v1")  # a line of its own behind it, with ^
    git(checkout, "pack-refs", "--all")
    assert not (checkout / ".git" / "refs" / "heads" / "room").exists()
    assert commit_of(checkout / "hf_albert_plus") == git(checkout, "rev-parse", "HEAD")


@needs_git
@pytest.mark.parametrize("packed", [False, True])
def test_a_worktree_has_its_own_commit(checkout, packed):
    other = checkout.parent / "other"
    git(checkout, "worktree", "add", "--quiet", "-b", "aside", str(other), "HEAD~1")
    if packed:
        git(checkout, "pack-refs", "--all")
    assert (other / ".git").is_file()
    assert checked_out(other) == git(other, "rev-parse", "HEAD") != checked_out(checkout)


@needs_git
def test_a_branch_without_a_commit_has_none(tmp_path):
    git(tmp_path, "init", "--quiet")
    assert checked_out(tmp_path) is None


@pytest.mark.parametrize(
    "files",
    [
        {},
        {".git": "gitdir: ../gone"},
        {".git": b"\xff\xfe"},
        {".git/HEAD": ""},
        {".git/HEAD": "ref: refs/heads/.invalid"},
        {".git/HEAD": "ref: refs/heads/main", ".git/refs/heads/main": "ref: refs/heads/other"},
        {".git/HEAD": "ref: refs/heads/main", ".git/packed-refs": f"{COMMIT} refs/heads/mainly\n"},
        {".git/HEAD": "ref: a\0b"},
    ],
)
def test_what_cannot_be_read_is_not_known(files, tmp_path):
    for name, content in files.items():
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert checked_out(tmp_path / "folder") is None


def installed(folder, direct_url):
    """An installed package, with what pip noted of where it is from."""
    (folder / "hf_albert_plus").mkdir(parents=True)
    noted = folder / f"{NAME.replace('-', '_')}-9.9.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 9.9\n")
    if direct_url is not None:
        (noted / "direct_url.json").write_text(direct_url if isinstance(direct_url, str) else json.dumps(direct_url))
    return folder / "hf_albert_plus"


OF_GIT = {"url": "https://host/it.git", "vcs_info": {"vcs": "git", "requested_revision": "main", "commit_id": COMMIT}}


def test_a_wheel_from_a_repository_has_the_commit_that_pip_noted(tmp_path, monkeypatch):
    package = installed(tmp_path / "site", OF_GIT)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert commit_of(package) == COMMIT
    (tmp_path / "elsewhere" / "hf_albert_plus").mkdir(parents=True)
    assert commit_of(tmp_path / "elsewhere" / "hf_albert_plus") is None  # what is installed is another package


@pytest.mark.parametrize(
    "direct_url",
    [None, "{", "[]", "null", {"url": "file:///x", "dir_info": {}}, {"vcs_info": {"commit_id": 3}}, {"vcs_info": {"commit_id": "trunk"}}],
)  # fmt: skip
def test_an_installation_from_elsewhere_has_none(direct_url, tmp_path, monkeypatch):
    package = installed(tmp_path / "site", direct_url)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert commit_of(package) is None


def test_versions_have_the_commit_where_it_is_known(monkeypatch):
    for commit, expected in ((COMMIT, {"commit": COMMIT}), (None, {})):
        monkeypatch.setattr("hf_albert_plus.records.record.code_commit", lambda commit=commit: commit)
        found = versions()
        assert {name: value for name, value in found.items() if name == "commit"} == expected
        assert list(found)[:2] == ["python", NAME]


def test_a_finished_stage_is_reused_by_the_code_of_another_commit(tmp_path, monkeypatch):
    def run(commit):
        monkeypatch.setattr("hf_albert_plus.records.record.code_commit", lambda: commit)
        return run_stage("test", tmp_path / "out", settings={"a": 1}, parents={}, work=lambda directory: {})

    assert run(COMMIT).versions["commit"] == COMMIT
    assert run(COMMIT[::-1]).reused


def test_the_commit_is_the_one_that_a_stage_began_with(tmp_path, monkeypatch):
    now = [COMMIT]
    monkeypatch.setattr(code_commit, "commit_of", lambda package: now[0])
    code_commit.code_commit.cache_clear()

    def work(directory):
        now[0] = COMMIT[::-1]
        return {}

    try:
        assert run_stage("test", tmp_path / "out", settings={}, parents={}, work=work).versions["commit"] == COMMIT
    finally:
        code_commit.code_commit.cache_clear()
