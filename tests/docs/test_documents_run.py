"""Every block of the documentation, page by page and in order, beside a finished demo: it runs, and prints what its page says."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.documents import PAGES, ROOT, Block, agrees, blocks_of, seen

# `test_serving_cluster` runs this one.
ELSEWHERE = {ROOT / "docs" / "operations" / "serving.md"}
RUNNING = [page for page in PAGES if page not in ELSEWHERE and any(block.runs for block in blocks_of(page))]
BLOCK_S, READY_S, DEMO_S, PAGE_S = 1200, 180, 1800, 3600
_QUIET = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    exec({before!r})\n"

pytestmark = [pytest.mark.slow, pytest.mark.pages, pytest.mark.timeout(PAGE_S)]


def environment() -> dict[str, str]:
    """The commands of this Python first, a terminal that cuts no line, and output in the order in which it is written."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "250", "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="session")
def demo(tmp_path_factory) -> Path:
    """What `make demo` leaves; ALBERT_PLUS_DEMO names one that is there."""
    if given := os.environ.get("ALBERT_PLUS_DEMO"):
        return Path(given).resolve()
    out = tmp_path_factory.mktemp("demo") / "demo-output"
    run = [sys.executable, "-m", "hf_albert_plus", "demo", "--out", out]
    subprocess.run(run, env=environment(), check=True, capture_output=True, timeout=DEMO_S)
    return out


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class PageRun:
    """The blocks of a page in a folder of their own, with what is still running of them."""

    def __init__(self, folder: Path):
        self.folder, self.port = folder, free_port()
        self.python: list[str] = []
        self.servers: list[subprocess.Popen] = []

    def run(self, block: Block) -> str:
        """Runs a block and returns what it printed."""
        code = block.code.replace("localhost:8000", f"localhost:{self.port}").replace(
            "--port 8000", f"--port {self.port}"
        )
        if block.runs_until_stopped:
            return self.start(code)
        if block.language == "bash":
            program = ["bash", "-euc", code]
        else:
            program = [sys.executable, "-c", _QUIET.format(before="\n".join(self.python)) + code]
            self.python.append(code)
        done = subprocess.run(
            program, cwd=self.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BLOCK_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{block.place}\n{code}\n{seen(done.stdout)[-3000:]}"
        return done.stdout

    def start(self, code: str) -> str:
        """Starts what runs until it is stopped, and waits until it says that it is ready."""
        log = self.folder / f"server-{len(self.servers)}.log"
        with log.open("w") as stream:
            server = subprocess.Popen(
                ["bash", "-euc", f"exec {code}"], cwd=self.folder, env=environment(), stdout=stream, stderr=stream, start_new_session=True,
            )  # fmt: skip
        self.servers.append(server)
        limit = time.monotonic() + READY_S
        while "ready:" not in log.read_text():
            assert server.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < limit, log.read_text()[-3000:]
            time.sleep(0.2)
        return log.read_text()

    def stop(self) -> None:
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=READY_S)


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_runs_and_prints_what_it_says(page, demo, tmp_path):
    (tmp_path / "demo-output").symlink_to(demo)
    (tmp_path / "work").mkdir()
    run = PageRun(tmp_path)
    try:
        for block in blocks_of(page):
            if not block.runs:
                continue
            printed = run.run(block)
            if block.output is not None:
                assert agrees(printed, block), f"{block.place} says\n{block.output}\n\nand it prints\n{seen(printed)}"
    finally:
        run.stop()
