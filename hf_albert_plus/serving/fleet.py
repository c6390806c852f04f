"""A server in several processes on one port: the system gives each new connection to one of them.

A process that dies takes its connections with it and is started again; the others go on.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from ..errors import InvalidInput
from ..machine import physical_cores
from .carried_errors import error_of, error_text
from .listener import Listener
from .server import Hosting, Server
from .settings import COUNTS, ServeSettings

_READY = "ready"
# So long a process must have lived to be started again at once; else there is a pause.
_STEADY_S, _PAUSE_S = 10.0, 1.0
_LOOK_S = 0.2
_EXTRA_S = 10.0


class Fleet:
    """Several processes of a server. `start`, then `run` until a signal."""

    def __init__(
        self,
        directory: Path,
        *,
        runtime: str | None,
        settings: ServeSettings,
        hosting: Hosting,
        processes: int,
        tell: Callable[[str], None] = print,
    ):
        """
        Args:
            processes: how many; they share the cores.
        """
        cores = settings.cores or max(1, physical_cores() // processes)
        self.directory, self.runtime, self.settings = directory, runtime, replace(settings, cores=cores)
        self.hosting, self.processes, self.tell = replace(hosting, shares_port=True), processes, tell
        self._stop = threading.Event()
        self._running: dict[SpawnProcess, float] = {}
        self._speaker: SpawnProcess | None = None
        self._begin_at = 0.0

    def start(self) -> None:
        """Starts all of them; each is ready when it returns.

        Raises:
            InvalidInput: nothing that is fit to serve, a port that is taken, or a system on which no port is shared.
        """
        if not hasattr(socket, "SO_REUSEPORT"):
            raise InvalidInput(
                "--processes needs a system on which processes share a port", got=os.name, repair="leave it out"
            )
        Listener(self.hosting.host, self.hosting.port).close()
        self._counts = tempfile.TemporaryDirectory(prefix="albert-counts-")
        os.environ[COUNTS] = self._counts.name
        begun = [self._begin() for _ in range(self.processes)]
        try:
            for process, ready in begun:
                self._wait(process, ready)
        except InvalidInput:
            for process, _ in begun:
                process.kill()
            self._counts.cleanup()
            raise

    def run(self) -> None:
        """Replaces processes that die until SIGTERM or SIGINT, then has all of them drain."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        while not self._stop.is_set():
            wait([process.sentinel for process in self._running], timeout=_LOOK_S)
            for process in [one for one in self._running if not one.is_alive()]:
                self._forget(process)
            if len(self._running) < self.processes and time.monotonic() >= self._begin_at:
                self._begin_another()
        for process in self._running:
            process.terminate()
        for process in self._running:
            process.join(self.settings.drain_s + _EXTRA_S)
            process.kill()
        self._counts.cleanup()
        self.tell("drained")

    def _forget(self, process: SpawnProcess) -> None:
        """A process has ended. One that lived for long is started again at once."""
        from prometheus_client.multiprocess import mark_process_dead

        lived_s = time.monotonic() - self._running.pop(process)
        mark_process_dead(process.pid)
        self.tell(f"a process ended ({process.exitcode}) and is started again")
        self._begin_at = time.monotonic() + (0.0 if lived_s > _STEADY_S else _PAUSE_S)

    def _begin_another(self) -> None:
        try:
            self._wait(*self._begin())
        except InvalidInput as error:
            self.tell(f"a process does not start: {error}")
            self._begin_at = time.monotonic() + _STEADY_S

    def _begin(self) -> tuple[SpawnProcess, Connection]:
        """Starts a process. One of them tells what all of them find."""
        speaks = self._speaker is None or not self._speaker.is_alive()
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        asked = (self.directory, self.runtime, self.settings, self.hosting, theirs, speaks)
        process = context.Process(target=_serve, args=asked)
        process.start()
        theirs.close()
        if speaks:
            self._speaker = process
        return process, ours

    def _wait(self, process: SpawnProcess, ready: Connection) -> None:
        """Waits until a process answers.

        Raises:
            InvalidInput: it does not start.
        """
        with ready:
            try:
                said = ready.recv()
            except EOFError:
                process.join()
                raise InvalidInput(
                    "each process of a server must start",
                    got=f"the end of one, by {process.exitcode}",
                    repair="see what it said, or leave --processes out",
                ) from None
        if said != _READY:
            process.join()
            raise error_of(said)
        self._running[process] = time.monotonic()


def _serve(
    directory: Path, runtime: str | None, settings: ServeSettings, hosting: Hosting, ready: Connection, speaks: bool
) -> None:
    """What one of the processes does."""

    def tell(text: str) -> None:
        if speaks:
            with contextlib.suppress(OSError):
                print(text, file=sys.stderr, flush=True)

    server = Server(directory, runtime=runtime, settings=settings, hosting=hosting, tell=tell)
    try:
        server.start()
    except InvalidInput as error:
        ready.send(error_text(error))
        return
    ready.send(_READY)
    ready.close()
    threading.Thread(target=_outlive_nobody, args=(server,), daemon=True).start()
    server.run()


def _outlive_nobody(server: Server) -> None:
    """Has a process drain once the one that started it has died."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        server.stop()
