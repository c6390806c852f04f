"""In how many windows texts were read, as documents have it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from hf_albert_plus.records.limits import limited
from hf_albert_plus.tasks.joined_answers import windows_a_text


@dataclass(frozen=True, kw_only=True)
class WindowCount:
    """Windows of a text: in the mean, and the most."""

    mean: Annotated[float, limited(ge=1, le=1e6)]
    most: Annotated[int, limited(ge=1, le=1_000_000)]

    @classmethod
    def of(cls, numbers: Sequence[int] | None) -> "WindowCount | None":
        """Those of rows, by the number of each row's text; None where each text has one row."""
        if numbers is None:
            return None
        mean, most = windows_a_text(numbers)
        return cls(mean=mean, most=most)

    def __str__(self) -> str:
        return f"{self.mean:.2f}, at most {self.most}"
