"""The settings of a server: what it allows, and how long it waits."""

from dataclasses import dataclass
from typing import Annotated

from ..engines.batch_plans import TOKEN_BUDGET
from ..errors import check_values, length_rule
from ..option import Option
from ..records.processes import MOST_THREADS

# Names the directory in which processes count together; prometheus_client reads it when it is imported.
COUNTS = "PROMETHEUS_MULTIPROC_DIR"


@dataclass(frozen=True)
class ServeSettings:
    """The limits of a server."""

    token_budget: Annotated[int, Option("Tokens a batch, padding included.")] = TOKEN_BUDGET
    wait_ms: Annotated[float, Option("How long a text waits for others to share its batch, where a core is free.")] = (
        0.0
    )
    cores: Annotated[
        int | None, Option("Cores of a process that compute, a batch on each. Default: the physical ones.", least=1)
    ] = None
    max_length: Annotated[
        int | None,
        Option(
            "Tokens of a text, or of each window. Default: the model's positions; as trained by --long head-tail or windows."
        ),
    ] = None
    truncate: Annotated[
        bool, Option("Cut longer texts, and say so, instead of refusing them, where the request does not say.")
    ] = False
    max_body: Annotated[int, Option("Largest request in bytes.")] = 4 << 20
    max_items: Annotated[int, Option("Most texts in a request.")] = 1024
    max_waiting: Annotated[int, Option("Tokens that may wait in a process before it answers 429.")] = 1 << 17
    deadline_s: Annotated[float, Option("Seconds after which a request is answered 504.", name="--deadline")] = 10.0
    header_timeout: Annotated[
        float, Option("Seconds for a request's headers to come; then its connection is closed.")
    ] = 10.0
    body_timeout: Annotated[float, Option("Seconds for a request's body to come; then it is answered 408.")] = 30.0
    drain_s: Annotated[float, Option("Seconds to finish what was accepted, once told to stop.", name="--drain")] = 30.0

    def __post_init__(self) -> None:
        check_values(
            self,
            ("token_budget", self.token_budget >= 1, "at least 1", str(TOKEN_BUDGET)),
            ("wait_ms", 0 <= self.wait_ms <= 1000, "from 0 to 1000", "0"),
            ("cores", self.cores is None or 1 <= self.cores <= MOST_THREADS, f"from 1 to {MOST_THREADS}", "2"),
            length_rule(self.max_length),
            ("max_body", self.max_body >= 1024, "at least 1024 bytes", "4194304"),
            ("max_items", self.max_items >= 1, "at least 1", "1024"),
            ("max_waiting", self.max_waiting >= 1, "at least 1", "131072"),
            ("deadline_s", 0 < self.deadline_s <= 3600, "above 0, at most 3600", "10"),
            ("header_timeout", 0 < self.header_timeout <= 3600, "above 0, at most 3600", "10"),
            ("body_timeout", 0 < self.body_timeout <= 3600, "above 0, at most 3600", "30"),
            ("drain_s", 0 <= self.drain_s <= 3600, "from 0 to 3600", "30"),
        )
