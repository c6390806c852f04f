"""Servers that people would use instead of ours, over the same graph: as processes, in environments of their own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from hf_albert_plus.engines.artefacts import get_runtime
from hf_albert_plus.errors import InvalidInput, last_line
from hf_albert_plus.eval.load.clients import Clients
from hf_albert_plus.eval.load.server_process import free_port
from hf_albert_plus.eval.targets import Target

_SERVERS = Path(__file__).parent / "peer_servers"
_START_S = 90
# What each of them runs a model with.
_NEEDED = ("onnxruntime", "tokenizers", "numpy")


def _as_list(texts: Sequence[str]) -> bytes:
    return json.dumps({"inputs": list(texts)}).encode()


def _as_tensor(texts: Sequence[str]) -> bytes:
    tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)}
    return json.dumps({"inputs": [tensor]}).encode()


@dataclass(frozen=True)
class Peer:
    """A server that people would use instead.

    Attributes:
        file: that starts it, in `peer_servers`.
        packages: that it is made of.
        path: that requests are posted to.
        body: texts -> a request.
    """

    name: str
    file: str
    packages: tuple[str, ...]
    path: str
    body: Callable[[Sequence[str]], bytes]


PEERS = (
    Peer("FastAPI, tokenizers, onnxruntime", "fastapi_lines.py", ("fastapi", "uvicorn[standard]"), "/classify", _as_list),
    Peer("LitServe", "litserve_batches.py", ("litserve",), "/predict", _as_list),
    Peer("MLServer", "mlserver_runtime.py", ("mlserver", "uvloop<0.22"), "/v2/models/film/infer", _as_tensor),
    Peer("KServe", "kserve_server.py", ("kserve",), "/v2/models/film/infer", _as_tensor),
)  # fmt: skip


class PeerProcess:
    """A peer that serves a target's graph, ready when the `with` block begins."""

    def __init__(self, peer: Peer, target: Target, environments: Path, first: Sequence[str]):
        """
        Args:
            environments: folder of the environments of all peers; what is missing is made there.
            first: texts of the request that shows that it is ready.

        Raises:
            InvalidInput: a target that is no graph for onnxruntime, or packages that cannot be installed.
        """
        self.peer, self.port = peer, free_port()
        runtime = get_runtime(target.runtime)
        if not runtime.is_plain:
            raise InvalidInput(
                "--peers run a graph in onnxruntime", got=runtime.name, repair=f"serve {target.directory}:onnx-int8"
            )
        graph = target.directory / runtime.file
        python = _python_of(peer, environments)
        self._words = [str(python), str(_SERVERS / peer.file), str(target.directory), str(graph), str(self.port)]
        self._first = peer.body(first)

    def __enter__(self) -> "PeerProcess":
        # Some write a line for every request.
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.DEVNULL, stderr=self._log, start_new_session=True,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip
        end = time.monotonic() + _START_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                asking = Clients("127.0.0.1", self.port, count=1, path=self.peer.path)
                (reply,) = asking.closed_loop([self._first])
                asking.close()
                if reply.status == 200:
                    return self
            except InvalidInput:
                pass  # it does not listen yet
            time.sleep(0.2)
        self.__exit__(None, None, None)
        self._log.seek(0)
        raise InvalidInput(
            f"{self.peer.name} must answer within {_START_S} s",
            got=last_line(self._log.read()),
            repair=f"try {' '.join(self._words)}",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def sleep(self) -> None:
        """Takes no processor time until it is woken: a server that looks for work all the time would slow the others."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return  # it has ended


@contextmanager
def awake(peer: PeerProcess) -> Iterator[None]:
    """Lets a peer run for a while."""
    peer.wake()
    try:
        yield
    finally:
        peer.sleep()


def _python_of(peer: Peer, environments: Path) -> Path:
    """The interpreter of a peer's environment, which is made where there is none.

    Raises:
        InvalidInput: its packages cannot be installed.
    """
    folder = environments / Path(peer.file).stem
    python, made = folder / "bin" / "python", folder / ".made"
    if not made.is_file():
        print(f"installing {', '.join(peer.packages)} in {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        words = [str(python), "-m", "pip", "install", "--quiet", *peer.packages, *_NEEDED]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise InvalidInput(f"{peer.name} must install", got=last_line(done.stderr), repair=f"try {' '.join(words)}")
        made.touch()
    return python
