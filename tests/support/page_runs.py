"""Runs the blocks of a page in order, as a reader types them."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.support.documents import ROOT, Block, agrees, blocks_of, seen
from tests.support.javascript import PACKAGES, why_no_node

BLOCK_S, READY_S = 1200, 180
_QUIET = (
    "import contextlib, io\n"
    "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
    "    exec({before!r})\n"
)


def environment() -> dict[str, str]:
    """The commands of this Python first, a terminal that cuts no line, and output in the order in which it is written."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "250", "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}


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
        elif block.language == "javascript":
            (self.folder / "block.mjs").write_text(code, encoding="utf-8")
            program = ["node", "block.mjs"]
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


def check_page(page: Path, folder: Path) -> None:
    """Runs a page in a folder, beside the examples: each block prints what the page says. What needs Node is left out where there is none."""
    (folder / "work").mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "node_modules").symlink_to(PACKAGES)
    run = PageRun(folder)
    try:
        for block in blocks_of(page):
            if not block.runs or (block.needs_node and why_no_node()):
                continue
            printed = run.run(block)
            if block.output is not None:
                assert agrees(printed, block), f"{block.place} says\n{block.output}\n\nand it prints\n{seen(printed)}"
    finally:
        run.stop()
