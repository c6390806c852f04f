"""A listener runs the application on a socket, in a thread."""

import asyncio
import socket
import threading
import time
from collections.abc import Coroutine
from typing import Any

from ..errors import InvalidInput

# Longer than load balancers keep an idle connection: it is theirs to close.
_IDLE_S = 75
_CLOSE_S = 5


class Listener:
    """A listener holds its port from the beginning, and answers from `start` to `stop`."""

    def __init__(self, host: str, port: int, *, shares_port: bool = False):
        """Takes the port.

        Args:
            shares_port: with other processes of the same server.

        Raises:
            InvalidInput: no such address, or a port that is taken.
        """
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares_port:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise InvalidInput(
                "--host and --port must be free to listen on",
                got=f"{host} {port} ({error.strerror or error})",
                repair="use another --port",
            ) from None

    def start(self, app: Any, *, header_s: float) -> None:
        """Answers with an application.

        Args:
            header_s: seconds for the headers of a request.
        """
        import uvicorn

        from .header_limits import limited_protocol

        config = uvicorn.Config(
            app, http=limited_protocol(header_s=header_s), ws="none", log_level="warning", access_log=False,
            timeout_keep_alive=_IDLE_S, timeout_graceful_shutdown=_CLOSE_S,
        )  # fmt: skip
        self._server, self._loop = uvicorn.Server(config), _event_loop()
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begins some work beside the requests, from another thread."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def _answer(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._server.serve(sockets=[self._socket]))
        finally:
            self._loop.close()

    def close(self) -> None:
        """Gives back a port on which nothing was answered."""
        self._socket.close()

    def stop(self) -> None:
        """Closes connections once what they asked is answered."""
        self._server.should_exit = True
        self._thread.join()


def _event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's event loop where it is installed, which it is not on Windows."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
