"""The guard before every request: the size of its body, who sends it, and whether the server still takes any."""

import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import HTTPException

from .gate import Gate
from .refusals import Draining, RequestError, TooLarge, TooSlow, Unauthorised
from .time_limits import within

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
# Times the largest body that is read to its end before it is refused.
_DRAINED = 8
# Of a length that could be allowed.
_DIGITS = 18
# Open to whoever asks: an orchestrator has no token, and a page has nothing to hide.
OPEN = ("/v2/health/live", "/v2/health/ready")
_PAGE = "/"


class Guard:
    """The guard is ASGI middleware. It hands what it refuses to `refuse`, as the application would answer it."""

    def __init__(
        self,
        app: Any,
        *,
        gate: Gate,
        max_body: int,
        body_s: float,
        refuse: Callable[[RequestError], Any],
        answered: Callable[[Message, int, float], None],
    ):
        """Puts itself before an application.

        Args:
            body_s: seconds for a body to come.
            answered: told of every request when it is over: its scope, its status, its seconds.
        """
        self.app, self.gate, self.max_body, self.body_s = app, gate, max_body, body_s
        self.refuse, self.answered = refuse, answered

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_open, status, start = scope["path"] in (*OPEN, _PAGE), 500, time.perf_counter()

        async def note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        timed = self._timed(receive)
        self.gate.in_flight += not is_open
        try:
            if not is_open:
                self._admit(scope)
            await self.app(scope, self._counted(timed), note)
        except RequestError as error:
            response = self.refuse(error)
            if isinstance(error, TooLarge) and not await _drain(timed, most=_DRAINED * self.max_body):
                response.headers["connection"] = "close"
            await response(scope, receive, note)
        finally:
            self.gate.in_flight -= not is_open
            self.answered(scope, status, time.perf_counter() - start)

    def _admit(self, scope: Message) -> None:
        headers = dict(scope["headers"])
        if self.gate.token is not None:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, f"Bearer {self.gate.token}".encode()):
                raise Unauthorised("this server wants its token: send the header Authorization: Bearer TOKEN")
        if self.gate.is_draining:
            raise Draining("the server is stopping; ask another one", retry_after_s=1)
        length = headers.get(b"content-length", b"")
        # Of any length itself: compared before it is read.
        if length.isdigit() and (len(length) > _DIGITS or int(length) > self.max_body):
            raise self._too_large()

    def _timed(self, receive: Receive) -> Receive:
        """What comes, the whole body within its time. What is waited for after it is whether the client leaves: that has no limit."""
        end, is_whole = time.monotonic() + self.body_s, False

        def too_slow() -> HTTPException:
            error = TooSlow(f"the body of a request must come within {self.body_s:g} s")
            return HTTPException(error.status, error.message, headers={"connection": "close"})

        async def timed() -> Message:
            nonlocal is_whole
            if is_whole:
                return await receive()
            message = await within(receive(), end - time.monotonic(), error=too_slow)
            is_whole = not message.get("more_body", False)
            return message

        return timed

    def _counted(self, receive: Receive) -> Receive:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.max_body:
                # FastAPI lets no other exception through while it reads a body.
                raise HTTPException(TooLarge.status, self._too_large().message)
            return message

        return counted

    def _too_large(self) -> TooLarge:
        return TooLarge(f"a request may have {self.max_body} bytes: send its texts in several")


async def _drain(receive: Receive, *, most: int) -> bool:
    """Reads what is still sent, within reason: a client that is still sending does not see an answer.

    Returns:
        Whether that was all.
    """
    seen = 0
    while seen < most:
        try:
            message = await receive()
        except HTTPException:  # too slow
            return False
        seen += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return True
    return False
