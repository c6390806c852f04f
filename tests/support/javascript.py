"""Runs transformers.js in Node and in a headless Chromium. `make node` brings the packages of examples/browser."""

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import ROOT

SCRIPTS = Path(__file__).parent / "node"
PACKAGES = ROOT / "examples" / "browser" / "node_modules"
OLDEST_NODE = 20
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@cache
def why_no_node() -> str | None:
    """What is missing to run JavaScript, with what brings it."""
    if shutil.which("node") is None:
        return "no node; install Node 20 or newer"
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < OLDEST_NODE:
        return f"node is {version}; install Node {OLDEST_NODE} or newer"
    # An installation that was stopped leaves packages, but not this file.
    if not (PACKAGES / ".made").is_file():
        return f"no packages in {PACKAGES}; type `make node`"
    return None


def why_no_browser() -> str | None:
    """What is missing to run a page, with what brings it."""
    if CHROMIUM is None:
        return "no Chromium; on Debian: apt-get install chromium"
    return why_no_node()


needs_node = pytest.mark.skipif(why_no_node() is not None, reason=str(why_no_node()))


def in_node(jobs: list[dict[str, Any]], folders: dict[str, str]) -> list[Any]:
    """The answers to jobs (`node/answers.mjs` says what those are), each of whose models is one of the folders."""
    placed = [{**job, "model": folders[job["model"]]} for job in jobs]
    found: list[Any] = _run("in_node.mjs", placed)
    return found


def in_browser(jobs: list[dict[str, Any]], folders: dict[str, str], *, visit: dict[str, str]) -> dict[str, Any]:
    """The answers to jobs in a page, and what the page of examples/browser shows to a visitor (`node/in_browser.mjs`)."""
    found: dict[str, Any] = _run(
        "in_browser.mjs", {"chromium": CHROMIUM, "folders": folders, "jobs": jobs, "visit": visit}
    )
    return found


def _run(script: str, given: Any) -> Any:
    done = subprocess.run(
        ["node", str(SCRIPTS / script)], input=json.dumps(given), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
