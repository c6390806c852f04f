"""A Hugging Face Hub in memory, served on 127.0.0.1: model repos with their commits, LFS uploads and downloads.

Its clients are the real ones, transformers and huggingface_hub. They read the Hub's address when they are imported, so
each runs in a process of its own, with an empty home:

    with LocalHub() as hub:
        hub.client(tmp_path / "home", "from transformers import ...", "user/model")
    assert "config.json" in hub.repos["user/model"]
    assert not hub.unexpected
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import yaml

Files = dict[str, bytes]
Json = dict[str, Any]
LFS_THRESHOLD = 10_000_000
LFS_SUFFIXES = (".safetensors", ".onnx", ".bin")
NAMES = {"repo": r"[\w.-]+/[\w.-]+", "revision": r"[^/]+", "oid": r"[0-9a-f]{64}", "path": r".+"}
ROUTES: list[tuple[str, re.Pattern[str], Callable[..., Any]]] = []


class Reply(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]


class Refused(Exception):
    """An error reply; `code` tells the client which exception to raise. 501 is for what this Hub does not offer."""

    def __init__(self, status: int, message: str, code: str = "", commit: str = "", **fields: str) -> None:
        headers = {"X-Error-Code": code, "X-Repo-Commit": commit}
        body = json.dumps({"error": message, **fields}).encode()
        self.reply = Reply(status, body, {name: value for name, value in headers.items() if value})


def route(methods: str, pattern: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Sends requests to the method below. Its arguments are the body, the `{names}` in the path and the query."""
    path = re.compile(re.sub(r"{(\w+)}", lambda name: f"(?P<{name[1]}>{NAMES[name[1]]})", pattern))

    def register(endpoint: Callable[..., Any]) -> Callable[..., Any]:
        ROUTES.extend((method, path, endpoint) for method in methods.split())
        return endpoint

    return register


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_lfs(path: str, size: int) -> bool:
    return size > 0 and (path.endswith(LFS_SUFFIXES) or size > LFS_THRESHOLD)


def etag(path: str, content: bytes) -> str:
    """The sha256 of an LFS file, git's object id of another."""
    if is_lfs(path, len(content)):
        return sha256(content)
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class LocalHub(ThreadingHTTPServer):
    """`requests` and `unexpected` are lists of (method, path); what was unexpected was answered with 501.

    Set `refusal` to (status, message) and every request is refused so, and `uploads_left` to how many uploads it takes before it refuses
    the others.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.commits: dict[str, dict[str, Files]] = {}  # by repo and sha, oldest first
        self.branches: dict[str, dict[str, str]] = {}  # sha by repo and name, main among them
        self.refusal: tuple[int, str] | None = None
        self.uploads_left: int | None = None
        self.objects: dict[str, bytes] = {}  # LFS objects by sha256
        self.requests: list[tuple[str, str]] = []
        self.unexpected: list[tuple[str, str]] = []
        self._announced: dict[str, int] = {}  # sizes of the LFS objects to come
        self._lock = Lock()

    def __enter__(self) -> "LocalHub":
        self._thread = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    @property
    def repos(self) -> dict[str, Files]:
        """The files on main, by repo."""
        return {repo: self._snapshot(repo, "main")[1] for repo in self.commits}

    def environment(self, home: Path) -> dict[str, str]:
        """What a client's process needs in its environment. An empty `home` makes it download everything."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_CACHE": str(home / "hub"),
            "HF_MODULES_CACHE": str(home / "modules"),
            "HF_TOKEN": "hf_local",
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def client(self, home: Path, script: str, *arguments: object) -> str:
        """Runs a script in a fresh process whose Hub is this one; returns what it printed."""
        home.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=240,
            cwd=home, env={**os.environ, **self.environment(home)},
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(done.stderr)
        return done.stdout

    def reply(self, method: str, target: str, body: bytes) -> Reply:
        url = urlsplit(target)
        with self._lock:
            self.requests.append((method, url.path))
            try:
                if self.refusal is not None:
                    raise Refused(*self.refusal)
                answer = self._dispatch(method, url.path, dict(parse_qsl(url.query)), body)
                return answer if isinstance(answer, Reply) else Reply(200, json.dumps(answer).encode(), {})
            except Refused as error:
                refused = error
            except Exception as error:
                refused = Refused(501, f"{method} {target} is not understood: {error!r}")
            if refused.reply.status == 501:
                self.unexpected.append((method, url.path))
            return refused.reply

    def _dispatch(self, method: str, path: str, query: dict[str, str], body: bytes) -> Any:
        for served, pattern, endpoint in ROUTES:
            if served == method and (match := pattern.fullmatch(path)):
                names = {name: unquote(value) for name, value in match.groupdict().items() if value is not None}
                return endpoint(self, body, **names, **query)
        raise Refused(501, f"no endpoint for {method} {path}")

    def _snapshot(self, repo: str, revision: str) -> tuple[str, Files]:
        """The commit that a revision (a branch, or a full sha) names, and its files."""
        if repo not in self.commits:
            raise Refused(404, "Repository not found", "RepoNotFound")
        sha = self.branches[repo].get(revision, revision)
        if sha not in self.commits[repo]:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return sha, self.commits[repo][sha]

    @route("POST", r"/api/repos/create")
    def _create(self, body: bytes) -> Json:
        asked = json.loads(body)
        if asked.get("type") not in (None, "model"):
            raise Refused(501, f"only models are served, not {asked['type']}")
        repo = f"{asked['organization'] or 'user'}/{asked['name']}"
        if repo in self.commits:
            raise Refused(409, "You already created this model repo", url=f"{self.url}/{repo}")
        first = hashlib.sha1(repo.encode()).hexdigest()
        self.commits[repo], self.branches[repo] = {first: {}}, {"main": first}
        return {"url": f"{self.url}/{repo}", "name": repo}

    @route("POST", r"/api/models/{repo}/branch/{revision}")
    def _branch(self, body: bytes, repo: str, revision: str) -> Json:
        if revision in self.branches[repo]:
            raise Refused(409, f"Reference already exists: {revision}")
        self.branches[repo][revision] = self._snapshot(repo, "main")[0]
        return {}

    @route("GET", r"/api/models/{repo}(/revision/{revision})?")
    def _info(self, body: bytes, repo: str, revision: str = "main") -> Json:
        sha, files = self._snapshot(repo, revision)
        siblings = [{"rfilename": path} for path in sorted(files)]
        return {"id": repo, "modelId": repo, "sha": sha, "private": False, "tags": [], "siblings": siblings}

    @route("GET", r"/api/models/{repo}/tree/{revision}(/{path})?")
    def _tree(
        self, body: bytes, repo: str, revision: str, path: str = "", recursive: str = "", expand: str = ""
    ) -> Any:
        """The files, without entries for their folders."""
        sha, files = self._snapshot(repo, revision)
        folder = f"{path}/" if path else ""
        inside = {file: content for file, content in sorted(files.items()) if file.startswith(folder)}
        if folder and not inside:
            raise Refused(404, f"{path} does not exist on {revision}", "EntryNotFound", sha)
        entries = []
        for file, content in inside.items():
            size, oid = len(content), etag(file, content)
            lfs = {"lfs": {"oid": oid, "size": size, "pointerSize": 134}} if is_lfs(file, size) else {}
            if recursive == "true" or "/" not in file.removeprefix(folder):
                entries.append({"type": "file", "path": file, "size": size, "oid": oid, **lfs})
        return entries

    @route("GET HEAD", r"/{repo}/resolve/{revision}/{path}")
    def _resolve(self, body: bytes, repo: str, revision: str, path: str) -> Reply:
        sha, files = self._snapshot(repo, revision)
        if path not in files:
            raise Refused(404, "Entry not found", "EntryNotFound", sha)
        content = files[path]
        headers = {"X-Repo-Commit": sha, "ETag": f'"{etag(path, content)}"'}
        if is_lfs(path, len(content)):
            headers |= {"X-Linked-Size": str(len(content)), "X-Linked-Etag": headers["ETag"]}
        return Reply(200, content, headers)

    @route("POST", r"/api/validate-yaml")
    def _validate_yaml(self, body: bytes) -> Json | Reply:
        found = re.match(r"\s*---\r?\n(.*?)\r?\n---", json.loads(body)["content"], re.DOTALL)
        try:
            empty = not (found and yaml.safe_load(found[1]))
        except yaml.YAMLError as error:
            return Reply(400, json.dumps({"errors": [{"message": str(error)}]}).encode(), {})
        return {"errors": [], "warnings": [{"message": "empty or missing yaml metadata in repo card"}] * empty}

    @route("POST", r"/api/models/{repo}/preupload/{revision}")
    def _preupload(self, body: bytes, repo: str, revision: str) -> Json:
        files = self._snapshot(repo, revision)[1]
        answer = []
        for asked in json.loads(body)["files"]:
            path, mode = asked["path"], "lfs" if is_lfs(asked["path"], asked["size"]) else "regular"
            oid = etag(path, files[path]) if path in files else None
            answer.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return {"files": answer}

    @route("POST", r"/{repo}\.git/info/lfs/objects/batch")
    def _lfs_batch(self, body: bytes, repo: str) -> Json:
        self._snapshot(repo, "main")
        answer = [{"oid": wanted["oid"], "size": wanted["size"]} for wanted in json.loads(body)["objects"]]
        for wanted in answer:
            if wanted["oid"] not in self.objects:
                self._announced[wanted["oid"]] = wanted["size"]
                href = f"{self.url}/lfs/{wanted['oid']}"
                wanted["actions"] = {"upload": {"href": href}, "verify": {"href": f"{href}/verify"}}
        return {"transfer": "basic", "objects": answer}

    @route("PUT", r"/lfs/{oid}")
    def _lfs_upload(self, body: bytes, oid: str) -> Json:
        if oid not in self._announced:
            raise Refused(403, f"{oid} was not announced")
        if self.uploads_left == 0:
            raise Refused(503, "no more uploads")
        if sha256(body) != oid or len(body) != self._announced[oid]:
            raise Refused(400, f"{len(body)} bytes with sha256 {sha256(body)} are not {oid}")
        self.objects[oid] = body
        self.uploads_left = None if self.uploads_left is None else self.uploads_left - 1
        return {}

    @route("POST", r"/lfs/{oid}/verify")
    def _lfs_verify(self, body: bytes, oid: str) -> Json:
        if oid not in self.objects or json.loads(body) != {"oid": oid, "size": len(self.objects[oid])}:
            raise Refused(404, f"{oid} was not uploaded")
        return {}

    @route("POST", r"/api/models/{repo}/commit/{revision}")
    def _commit(self, body: bytes, repo: str, revision: str) -> Json:
        head, files = self._snapshot(repo, revision)
        if revision not in self.branches[repo]:
            raise Refused(501, "commits go to branches")
        header, *changes = (json.loads(line) for line in body.splitlines())
        if header["value"].get("parentCommit", head) != head:
            raise Refused(412, "A commit has happened since")
        files = dict(files)
        for kind, change in ((line["key"], line["value"]) for line in changes):
            path = change["path"]
            if kind == "file":
                files[path] = base64.b64decode(change["content"], validate=True)
                if is_lfs(path, len(files[path])):
                    raise Refused(400, f"{path} must be uploaded over LFS")
            elif kind == "lfsFile":
                if change["oid"] not in self.objects:
                    raise Refused(400, "An LFS pointer pointed to a file that does not exist")
                files[path] = self.objects[change["oid"]]
            elif kind == "deletedFile":
                if files.pop(path, None) is None:
                    raise Refused(404, "A file with this name doesn't exist", "EntryNotFound")
            else:
                raise Refused(501, f"no {kind} in a commit")
        sha = hashlib.sha1(head.encode() + body).hexdigest()
        self.commits[repo][sha], self.branches[repo][revision] = files, sha
        return {"success": True, "commitOid": sha, "commitUrl": f"{self.url}/{repo}/commit/{sha}", "hookOutput": ""}


class Handler(BaseHTTPRequestHandler):
    server: LocalHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self) -> None:
        reply = self.server.reply(self.command, self.path, self.rfile.read(int(self.headers["Content-Length"] or 0)))
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer

    def log_message(self, *_: object) -> None:
        pass
