"""A server of ours as a process, what each of its parts takes of the processors, and clients that send requests to its `/classify`:
as fast as answers come, or by a schedule that does not wait for them."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from hf_albert_plus.errors import InvalidInput

# In the names that Ray gives the processes of models.
_REPLICA = "ServeReplica"
_STOP_S = 60


class ServerProcess:
    """`albert-plus serve`, ready when the `with` block begins and drained at its end."""

    def __init__(self, target: str, *options: str, port: int | None = None):
        self.port = port or _free_port()
        self._said: list[str] = []
        self._words = ["serve", target, "--port", str(self.port), *options]

    def __enter__(self) -> "ServerProcess":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hf_albert_plus", *self._words],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line.strip())
            if line.startswith("ready:"):
                # A full pipe would stop it.
                self._reader = threading.Thread(target=self._read, daemon=True)
                self._reader.start()
                return self
        self._process.stderr.close()
        self._process.wait()
        raise InvalidInput(
            "the server must start", got=" ".join(said[-2:]), repair=f"try albert-plus {' '.join(self._words)}"
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        finally:
            assert self._process.stderr is not None
            self._reader.join()
            self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        self._said += self._process.stderr

    @property
    def log(self) -> str:
        """What it has said on stderr since it was ready; all of it once it has ended."""
        return "".join(self._said)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> int:
        """Has it drain; its exit status."""
        self._process.terminate()
        return self._process.wait(timeout=_STOP_S)

    def replicas(self, model: str = "") -> list[int]:
        """Process ids of the replicas of a model, or of all."""
        import psutil

        ids = []
        for process in psutil.Process(self.pid).children(recursive=True):
            try:
                if f"{_REPLICA}:{model}" in " ".join(process.cmdline()):
                    ids.append(process.pid)
            except psutil.NoSuchProcess:
                continue
        return ids

    def cpu_seconds(self) -> Counter[str]:
        """Part -> processor time so far: the client (this process), the process that takes requests, the models, the rest of Ray."""
        import psutil

        seconds: Counter[str] = Counter()
        server = psutil.Process(self.pid)
        for process in (psutil.Process(), server, *server.children(recursive=True)):
            try:
                name, times = " ".join(process.cmdline()), process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            own = {os.getpid(): "client", server.pid: "HTTP"}
            part = own.get(process.pid, "models" if _REPLICA in name else "rest of Ray")
            seconds[part] += times.user + times.system
        return seconds


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


_PATIENCE_S = 60


@dataclass(frozen=True)
class Reply:
    """The answer to a request.

    Attributes:
        ms: milliseconds from when it was due to its last byte.
        status: HTTP's status.
        body: the bytes as they came.
    """

    ms: float
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Clients:
    """Threads with a connection each."""

    def __init__(self, host: str, port: int, *, count: int):
        self._host, self._port, self._own = host, port, threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix="client")

    def closed_loop(self, bodies: Sequence[bytes]) -> list[Reply]:
        """Every client sends its next request when it has its answer. Replies in the order of the requests."""
        return list(self._pool.map(lambda body: self._send(body, due=time.perf_counter()), bodies))

    def open_loop(self, bodies: Sequence[bytes], arrivals: Sequence[float]) -> list[Reply]:
        """Every request is sent when it is due, where a client is free; its time counts from then in any case.

        Args:
            arrivals: seconds after the start, ascending.
        """
        start = time.perf_counter()
        waiting = []
        for body, arrival in zip(bodies, arrivals, strict=True):
            due = start + arrival
            time.sleep(max(0.0, due - time.perf_counter()))
            waiting.append(self._pool.submit(self._send, body, due=due))
        return [one.result() for one in waiting]

    def close(self) -> None:
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()

    def _send(self, body: bytes, *, due: float) -> Reply:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE_S)
            self._connections.append(self._own.connection)
        connection = self._own.connection
        try:
            connection.request("POST", "/classify", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        except OSError as error:
            raise InvalidInput(
                "the server must answer", got=str(error), repair="see its log, or start it again"
            ) from None
        return Reply((time.perf_counter() - due) * 1e3, answer.status, content)
