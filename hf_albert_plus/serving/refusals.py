"""What a request is refused with: a status and a sentence, never a stack trace."""

from typing import Any


class RequestError(Exception):
    """A request that is answered with another status than 200.

    Attributes:
        status: status of the HTTP answer.
        message: what is wrong, with what was given and what would be right.
        retry_after_s: seconds after which the same request may be tried again.
    """

    status = 400

    def __init__(self, message: str, *, retry_after_s: float | None = None):
        super().__init__(message)
        self.message, self.retry_after_s = message, retry_after_s

    def __reduce__(self) -> tuple[type["RequestError"], tuple[str], dict[str, Any]]:
        """How it crosses from the process of a model to the one that takes requests."""
        return type(self), (self.message,), {"retry_after_s": self.retry_after_s}


class Unauthorised(RequestError):
    """A request bears no token, or a wrong one."""

    status = 401


class UnknownModel(RequestError):
    """A request names no model or version that is served."""

    status = 404


class TooSlow(RequestError):
    """The body of a request did not come in time."""

    status = 408


class TooLarge(RequestError):
    """A body or a list of a request is beyond its limit."""

    status = 413


class Unusable(RequestError):
    """A request is well-formed, and still nothing that a model can take: too long a text, a tensor of another shape."""

    status = 422


class Overloaded(RequestError):
    """As many requests wait as may."""

    status = 429


class Failed(RequestError):
    """A request failed by the server's own fault.

    Attributes:
        why: what its log says; the client is not told.
    """

    status = 500

    def __init__(self, message: str = "the server failed at this; its log says why", *, why: str = ""):
        super().__init__(message)
        self.why = why

    def __reduce__(self) -> tuple[type["RequestError"], tuple[str], dict[str, Any]]:
        return type(self), (self.message,), {"why": self.why}


class NotFinite(Failed):
    """A model computed something that is no number."""


class Draining(RequestError):
    """The server is about to stop."""

    status = 503


class NotReady(RequestError):
    """A request names a model that is not fit to serve."""

    status = 503


class DeadlineExceeded(RequestError):
    """A request had no answer in time."""

    status = 504
