"""How models are scored, timed and served to be timed: what a figure may be, checked before anything is opened."""

from dataclasses import dataclass

from hf_albert_plus.errors import check_values

# A day of one measurement, a thousand measurements, and more sentences a second than any machine answers.
_LONGEST_S, _ROUNDS, _FASTEST = 86_400, 1000, 1e9


@dataclass(frozen=True)
class EvalSettings:
    """
    Attributes:
        max_length: longest input in tokens.
        rounds: how often each way of batching is timed.
    """

    max_length: int = 128
    rounds: int = 1

    def __post_init__(self) -> None:
        check_values(
            self,
            ("max_length", self.max_length >= 4, "at least 4", "128"),
            ("rounds", 1 <= self.rounds <= _ROUNDS, f"at least 1 and at most {_ROUNDS:,}", "5"),
        )


@dataclass(frozen=True)
class BenchSettings:
    """
    Attributes:
        seconds: least measured time of each target and load.
        rate: sentences a second of the server scenario.
        max_length: longest sentence in tokens.
    """

    seconds: float = 3.0
    rate: tuple[float, ...] = ()
    max_length: int = 128

    def __post_init__(self) -> None:
        rates = all(0 < rate <= _FASTEST for rate in self.rate)
        check_values(
            self,
            ("seconds", 0 < self.seconds <= _LONGEST_S, f"greater than 0 and at most {_LONGEST_S:,}", "3"),
            (
                "rate",
                rates,
                f"greater than 0 and at most {_FASTEST:,.0f}",
                "100, or leave it out for half the baseline's pace",
            ),
            ("max_length", self.max_length >= 4, "at least 4", "128"),
        )


@dataclass(frozen=True)
class ServedSettings:
    """
    Attributes:
        texts: sentences of a request.
        clients: that ask at a time.
        seconds: of the one-at-a-time and of the open loop.
        wait_ms: how long the server lets a sentence wait for others.
        max_length: longest sentence in tokens.
    """

    texts: int = 64
    clients: int = 4
    seconds: float = 20.0
    wait_ms: float = 2.0
    max_length: int = 128

    def __post_init__(self) -> None:
        check_values(
            self,
            ("texts", 1 <= self.texts <= 1024, "at least 1 and at most 1,024", "64"),
            ("clients", 1 <= self.clients <= 1024, "at least 1 and at most 1,024", "4"),
            ("seconds", 1 <= self.seconds <= _LONGEST_S, f"at least 1 and at most {_LONGEST_S:,}", "20"),
            ("wait_ms", 0 <= self.wait_ms <= 60_000, "at least 0 and at most 60,000", "2"),
            ("max_length", self.max_length >= 4, "at least 4", "128"),
        )


@dataclass(frozen=True)
class PlanSettings:
    """
    Attributes:
        rate: requests a second to answer.
        texts: of a request.
    """

    rate: float = 1000.0
    texts: int = 1

    def __post_init__(self) -> None:
        check_values(
            self,
            ("rate", 0 < self.rate <= _FASTEST, f"greater than 0 and at most {_FASTEST:,.0f}", "1000"),
            ("texts", 1 <= self.texts <= 1 << 20, f"at least 1 and at most {1 << 20:,}", "1"),
        )


__all__ = ["BenchSettings", "EvalSettings", "PlanSettings", "ServedSettings"]
