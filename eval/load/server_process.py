"""A server of ours as a process, and what each of its parts takes of the processors."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from types import TracebackType

from hf_albert_plus.errors import InvalidInput

# In the names that Ray gives the processes of models.
_REPLICA = "ServeReplica"
# In the command of a process that multiprocessing started.
_SPAWNED = "spawn_main"
_STOP_S = 60


class ServerProcess:
    """`albert-plus serve`, ready when the `with` block begins and drained at its end.

    Attributes:
        ready_s: seconds from the command until it was ready.
    """

    def __init__(self, target: str, *options: str, port: int | None = None):
        self.port = port or free_port()
        self._said: list[str] = []
        self._words = ["serve", target, "--port", str(self.port), *options]

    def __enter__(self) -> "ServerProcess":
        start = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hf_albert_plus", *self._words],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line.strip())
            if line.startswith("ready:"):
                self.ready_s = round(time.monotonic() - start, 2)
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

    def workers(self, model: str = "") -> list[int]:
        """Process ids of the processes that run a model, or all: replicas of a cluster, or processes that share the port; none of a server in
        one process."""
        import psutil

        ids = []
        for process in psutil.Process(self.pid).children(recursive=True):
            try:
                words = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if f"{_REPLICA}:{model}" in words or _SPAWNED in words:
                ids.append(process.pid)
        return ids

    def memory_mb(self) -> float | None:
        """Megabytes of all its processes, what they share counted once (PSS); None where the system does not tell."""
        import psutil

        server = psutil.Process(self.pid)
        try:
            memory = sum(process.memory_full_info().pss for process in (server, *server.children(recursive=True)))
        except (AttributeError, psutil.Error):
            return None
        return round(memory / 1e6, 1)

    def cpu_seconds(self) -> Counter[str]:
        """Part -> processor time so far: the client (this process), the process that takes requests, and of a cluster the models and the rest of
        Ray."""
        import psutil

        seconds: Counter[str] = Counter()
        server = psutil.Process(self.pid)
        for process in (psutil.Process(), server, *server.children(recursive=True)):
            try:
                name, times = " ".join(process.cmdline()), process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            own = {os.getpid(): "client", server.pid: "server"}
            part = own.get(process.pid, "models" if _REPLICA in name else "rest of Ray")
            seconds[part] += times.user + times.system
        return seconds


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port
