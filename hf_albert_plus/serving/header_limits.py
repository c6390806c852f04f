"""Limits on what comes before a request reaches the application: the seconds and the bytes of its headers."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# As much as other servers read.
_HEADER_BYTES = 64 << 10


_TOO_LARGE = f"the headers of a request may have {_HEADER_BYTES} bytes"


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which closes a connection whose headers take too long or too many bytes.

    A connection may be idle between requests for as long as uvicorn lets it.

    Attributes:
        header_s: seconds for the headers of a request.
    """

    header_s: float
    _timer: asyncio.TimerHandle | None = None
    _seen = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unlimit()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        waiting = self._timer
        super().data_received(data)
        if self.transport.is_closing():
            return
        if waiting is not None and waiting is self._timer:
            # All of it belongs to headers that have no end yet.
            self._seen += len(data)
            if self._seen > _HEADER_BYTES:
                self.send_400_response(_TOO_LARGE)
        elif self._timer is None and self.timeout_keep_alive_task is None and self._is_answered():
            # Blank lines between requests, or the rest of a body that was refused: nothing else ends them.
            self._limit()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """A client that has sent its request whole, and sends no more, still gets its answer."""
        if self._is_answered() or self.cycle.more_body:
            return None
        self.cycle.keep_alive = False
        return True

    def send_400_response(self, msg: str) -> None:
        self._leave_request()
        super().send_400_response(msg)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._limit()

    def on_headers_complete(self) -> None:
        self._unlimit()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > _HEADER_BYTES:
            raise ValueError(_TOO_LARGE)
        super().on_headers_complete()

    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _leave_request(self) -> None:
        """What is still being answered has nowhere to go: uvicorn would write to a closed connection."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _give_up(self) -> None:
        self._leave_request()
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as any other; uvicorn would tell the operator to install a library."""

    def _limit(self) -> None:
        self._seen = 0
        self._timer = self.loop.call_later(self.header_s, self._give_up)

    def _unlimit(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def limited_protocol(*, header_s: float) -> type[LimitedProtocol]:
    """The protocol of a server that gives the headers of a request so many seconds."""
    return type(LimitedProtocol.__name__, (LimitedProtocol,), {"header_s": header_s})
