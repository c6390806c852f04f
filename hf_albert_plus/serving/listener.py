"""A listener runs the application on a socket, in a thread."""

import socket
import threading
import time
from typing import Any

from ..errors import InvalidInput

# Longer than load balancers keep an idle connection: it is theirs to close.
_IDLE_S = 75
_CLOSE_S = 5


class Listener:
    """A listener holds its port from the beginning, and answers from `start` to `stop`."""

    def __init__(self, host: str, port: int):
        """Takes the port.

        Raises:
            InvalidInput: no such address, or a port that is taken.
        """
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)

    def close(self) -> None:
        """Gives back a port on which nothing was answered."""
        self._socket.close()

    def stop(self) -> None:
        """Closes connections once what they asked is answered."""
        self._server.should_exit = True
        self._thread.join()
