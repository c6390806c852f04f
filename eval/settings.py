"""Settings of scoring, of timing, of loading a server and of planning: what each value may be, checked before anything is opened."""

from dataclasses import dataclass
from typing import Annotated

from hf_albert_plus.errors import check_values, length_rule
from hf_albert_plus.option import Option, PythonOnly

# A day of one measurement, a thousand measurements, and more sentences a second than any machine answers.
_LONGEST_S, _ROUNDS, _FASTEST = 86_400, 1000, 1e9


@dataclass(frozen=True)
class EvalSettings:
    """How targets are scored."""

    max_length: Annotated[
        int,
        Option("Longest input in tokens; the rest is cut. Default: as the model was trained, or 128.", of_task=True),
    ] = 128
    batching: Annotated[
        tuple[str, ...],
        Option(
            "Way to make batches: length:TOKENS (rows of similar length, a token budget) or file:ROWS (the file's order); "
            "repeat to compare. The first one's predictions are scored."
        ),
    ] = ("length",)
    rounds: Annotated[int, Option("How often each way of batching is timed, in turns.", least=1)] = 1
    every_split: Annotated[bool, PythonOnly("a search reads the first of the evaluated splits alone")] = True

    def __post_init__(self) -> None:
        check_values(
            self,
            length_rule(self.max_length),
            ("rounds", 1 <= self.rounds <= _ROUNDS, f"at least 1 and at most {_ROUNDS:,}", "5"),
        )


@dataclass(frozen=True)
class InspectSettings:
    """Which texts encoders are looked into with."""

    split: Annotated[str | None, Option("Split of --data. Default: the task's validation split.")] = None
    rows: Annotated[int, Option("Texts to read, the first ones.")] = 500
    max_length: Annotated[
        int,
        Option("Longest input in tokens; the rest is cut. Default: as the model was trained, or 128.", of_task=True),
    ] = 128

    def __post_init__(self) -> None:
        check_values(
            self,
            ("rows", 1 <= self.rows <= 1 << 30, "at least 1", "500"),
            length_rule(self.max_length),
        )


@dataclass(frozen=True)
class BenchSettings:
    """How targets are timed."""

    rate: Annotated[
        tuple[float, ...],
        Option("Sentences a second of the server scenario; repeat for several. Default: half the baseline's pace."),
    ] = ()
    max_length: Annotated[
        int,
        Option("Longest sentence in tokens; the rest is cut. Default: as the model was trained, or 128.", of_task=True),
    ] = 128
    seconds: Annotated[float, Option("Least measured time for each target and load.")] = 3.0
    rows: Annotated[int | None, Option("Texts of --data to time, evenly over the split. Default: all.")] = None

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
            ("rows", self.rows is None or 1 <= self.rows <= 1 << 30, "at least 1", "1000"),
            length_rule(self.max_length),
        )


@dataclass(frozen=True)
class ServedSettings:
    """How a server is loaded to be timed."""

    texts: Annotated[int, Option("Sentences of a request.")] = 64
    clients: Annotated[int, Option("Clients that ask at a time.")] = 4
    seconds: Annotated[float, Option("Seconds of each of the two measurements of latency.")] = 20.0
    wait_ms: Annotated[float, Option("How long the server lets a sentence wait for others.")] = 0.0
    max_length: Annotated[
        int,
        Option("Longest sentence in tokens; the rest is cut. Default: as the model was trained, or 128.", of_task=True),
    ] = 128

    def __post_init__(self) -> None:
        check_values(
            self,
            ("texts", 1 <= self.texts <= 1024, "at least 1 and at most 1,024", "64"),
            ("clients", 1 <= self.clients <= 1024, "at least 1 and at most 1,024", "4"),
            ("seconds", 1 <= self.seconds <= _LONGEST_S, f"at least 1 and at most {_LONGEST_S:,}", "20"),
            ("wait_ms", 0 <= self.wait_ms <= 60_000, "at least 0 and at most 60,000", "0"),
            length_rule(self.max_length),
        )


@dataclass(frozen=True)
class InvarianceSettings:
    """How the answers to texts alone are compared with those in company."""

    rows: Annotated[int | None, Option("Texts to ask for, the first of the split. Default: all.")] = None
    batches: Annotated[tuple[int, ...], Option("Texts of a batch; repeat for several.")] = (32, 256)
    padded_to: Annotated[int, Option("Tokens that every text is padded to once more, or the longest text.")] = 128
    clients: Annotated[int, Option("Clients that ask a server at a time; 0 for no server.")] = 32

    def __post_init__(self) -> None:
        sizes = bool(self.batches) and all(2 <= size <= 1 << 16 for size in self.batches)
        check_values(
            self,
            ("rows", self.rows is None or 2 <= self.rows <= 1 << 30, "at least 2", "1000"),
            ("batches", sizes, "from 2 to 65,536 texts", "32"),
            ("padded_to", 4 <= self.padded_to <= 1 << 20, "at least 4 and at most 1,048,576 tokens", "128"),
            ("clients", 0 <= self.clients <= 1024, "from 0 to 1,024", "32"),
        )


@dataclass(frozen=True)
class PlanSettings:
    """What load a plan is for."""

    rate: Annotated[float, Option("Requests a second to answer.", least=0)] = 1000.0
    texts: Annotated[int, Option("Texts of a request.", least=1)] = 1

    def __post_init__(self) -> None:
        check_values(
            self,
            ("rate", 0 < self.rate <= _FASTEST, f"greater than 0 and at most {_FASTEST:,.0f}", "1000"),
            ("texts", 1 <= self.texts <= 1 << 20, f"at least 1 and at most {1 << 20:,}", "1"),
        )
