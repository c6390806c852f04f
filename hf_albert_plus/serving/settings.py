"""What a server allows, and how long it waits."""

from dataclasses import asdict, dataclass
from typing import Any

from hf_albert_plus.export.batching import TOKEN_BUDGET

from ..errors import check_values
from ..processes import MOST_THREADS


@dataclass(frozen=True)
class ServeSettings:
    """
    Attributes:
        token_budget: tokens a batch, padding included.
        wait_ms: how long a row waits for others to share its batch with, where a core is free.
        streams: batches that a replica computes at a time, each on one core; None for the physical cores.
        max_length: tokens of a text, None for the model's positions.
        truncate: cut longer texts (and say so) where the request does not say, instead of refusing them.
        max_body: bytes of a request.
        max_items: texts of a request.
        max_waiting: tokens that may wait in a replica before requests are refused.
        deadline_s: how long a request may take.
        header_timeout: seconds that the headers of a request may take to come; the connection is closed then.
        body_timeout: seconds that its body may take.
        drain_s: how long a server that was told to stop finishes what it accepted.
    """

    token_budget: int = TOKEN_BUDGET
    wait_ms: float = 2.0
    streams: int | None = None
    max_length: int | None = None
    truncate: bool = False
    max_body: int = 4 << 20
    max_items: int = 1024
    max_waiting: int = 1 << 17
    deadline_s: float = 10.0
    header_timeout: float = 10.0
    body_timeout: float = 30.0
    drain_s: float = 30.0

    def __post_init__(self) -> None:
        check_values(
            self,
            ("token_budget", self.token_budget >= 1, "at least 1", str(TOKEN_BUDGET)),
            ("wait_ms", 0 <= self.wait_ms <= 1000, "from 0 to 1000", "2"),
            ("streams", self.streams is None or 1 <= self.streams <= MOST_THREADS, f"from 1 to {MOST_THREADS}", "2"),
            ("max_length", self.max_length is None or self.max_length >= 4, "at least 4", "128"),
            ("max_body", self.max_body >= 1024, "at least 1024 bytes", "4194304"),
            ("max_items", self.max_items >= 1, "at least 1", "1024"),
            ("max_waiting", self.max_waiting >= 1, "at least 1", "131072"),
            ("deadline_s", 0 < self.deadline_s <= 3600, "above 0, at most 3600", "10"),
            ("header_timeout", 0 < self.header_timeout <= 3600, "above 0, at most 3600", "10"),
            ("body_timeout", 0 < self.body_timeout <= 3600, "above 0, at most 3600", "30"),
            ("drain_s", 0 <= self.drain_s <= 3600, "from 0 to 3600", "30"),
        )

    def describe(self) -> dict[str, Any]:
        return asdict(self)


__all__ = ["ServeSettings"]
