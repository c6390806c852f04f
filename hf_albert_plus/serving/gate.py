"""Who may come in: what the guard of requests, the routes and the server itself share while it runs."""

from dataclasses import dataclass, field


@dataclass
class Gate:
    """Whether requests are taken, from whom, and how many are being answered.

    Attributes:
        token: that requests must bear, None for none.
        is_draining: nothing new is taken.
        in_flight: requests that are being answered.
    """

    token: str | None = field(default=None, repr=False)
    is_draining: bool = False
    in_flight: int = 0
