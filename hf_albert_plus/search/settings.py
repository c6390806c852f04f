"""What a search is given: the budget that its pick must keep within, and the time that it may take."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from ..compression.settings import LARGEST_DROP
from ..conversion.settings import Pooling
from ..errors import InvalidInput, check_known, check_values, length_rule, seed_rule, shown
from ..option import Option, PythonOnly
from ..tasks.task import Task
from ..training.settings import Precision, TrainSettings, check_trackers

Traffic = Literal["batches", "alone"]
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
_BYTES = {"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}


def _quantity(text: str, units: dict[str, float], *, option: str, example: str) -> float:
    """`"2ms"` -> 2.0, in the unit whose value is one.

    Raises:
        InvalidInput: no positive number with one of the units behind it.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-z]+)", text.strip())
    if match is None or match[2] not in units or not 0 < float(match[1]) <= 1e9:
        raise InvalidInput(
            f"{option} must be a number above 0 with one of the units {', '.join(units)}",
            got=shown(text),
            repair=f"use {option} {example}",
        )
    return float(match[1]) * units[match[2]]


def parse_time(text: str) -> float:
    """`"60m"` -> 3600.0 seconds."""
    return _quantity(text, _SECONDS, option="--time-budget", example="60m")


def parse_latency(text: str) -> float:
    """`"2ms"` -> 2.0 milliseconds."""
    return _quantity(text, _MILLISECONDS, option="--max-latency", example="2ms")


def parse_size(text: str) -> float:
    """`"8MB"` -> 8,000,000.0 bytes."""
    return _quantity(text, _BYTES, option="--max-size", example="8MB")


@dataclass(frozen=True)
class Budget:
    """What a pick must keep within; None where nothing is asked.

    Attributes:
        max_drop: points of the task's first metric that the teacher may be ahead, or in the unit of an error.
        min_speedup: times the teacher's pace in torch fp32.
        max_latency_ms: median of one text at a time.
        max_bytes: of the exported file.
        error: the score, where it is one, in whose unit `max_drop` is.
    """

    max_drop: float | None = None
    min_speedup: float | None = None
    max_latency_ms: float | None = None
    max_bytes: float | None = None
    error: str | None = None

    @property
    def unit(self) -> str:
        """What is lost."""
        return "points" if self.error is None else f"of {self.error}"

    @property
    def seeks_speed(self) -> bool:
        """Whether the fastest that keeps within is the pick; else it is the best one that is as fast and small as is asked."""
        return self.max_drop is not None

    def in_words(self) -> str:
        parts = {
            (
                "at most {:g} point lost"
                if self.max_drop == 1 and self.error is None
                else f"at most {{:g}} {self.unit} lost"
            ): self.max_drop,
            "at least {:g} times as fast": self.min_speedup,
            "at most {:g} ms a text": self.max_latency_ms,
            "at most {:g} MB": None if self.max_bytes is None else self.max_bytes / 1e6,
        }
        return ", ".join(text.format(value) for text, value in parts.items() if value is not None)


@dataclass(frozen=True)
class CompressSettings:
    """The budget, and how the search goes about it."""

    max_drop: Annotated[
        float | None,
        Option(
            "Points of the score that may be lost, with 90 % confidence; the fastest model that holds is the pick. "
            "Default: 1 where nothing else is asked for; of an error a twentieth of the teacher's."
        ),
    ] = None
    min_speedup: Annotated[
        float | None, Option("Least speedup over the teacher in torch fp32, under the --traffic.")
    ] = None
    max_latency: Annotated[
        float | None,
        Option("Longest median latency of one text at a time, such as 2ms.", parse=parse_latency, metavar="TIME"),
    ] = None
    max_size: Annotated[
        float | None, Option("Largest file of the exported model, such as 8MB.", parse=parse_size, metavar="SIZE")
    ] = None
    traffic: Annotated[
        Traffic, Option("Which speed counts: that of texts in batches of similar length, or of one text at a time.")
    ] = "batches"
    time_budget: Annotated[
        float,
        Option(
            "Longest time of the search after the teacher, such as 60m. Again with a larger one, it goes on.",
            parse=parse_time,
            default="60m",
            metavar="TIME",
        ),
    ] = 3600.0
    epochs: Annotated[
        float | None,
        Option(
            "Passes over the data that a candidate learns. Default: the task's own, or fewer where --time-budget is short."
        ),
    ] = None
    learning_rate: Annotated[
        float | None,
        Option("Peak learning rate of candidates. Default: 3e-4; of teachers wider than 384 less, in proportion."),
    ] = None
    unlabelled: Annotated[
        str | None,
        Option(
            "More texts, which the teacher answers for candidates to learn from: a file or folder of csv, tsv, jsonl or parquet with the "
            "task's text columns or one called text, or a .txt with a text a line."
        ),
    ] = None
    student: Annotated[
        tuple[str, ...],
        Option(
            "A student that knows the language, such as one of distill's general phases: a model directory with weights, which learns the task "
            "and is a candidate beside what is cut from the teacher; repeat for several. Default: none."
        ),
    ] = ()
    made_up_texts: Annotated[
        bool,
        Option(
            "Where rows are few and no --unlabelled is given, candidates also learn what the teacher says of copies of them with other words."
        ),
    ] = True
    exits: Annotated[
        bool, Option("Also try early exits, on the teacher and, where they pay there, on every shape that holds.")
    ] = True
    jobs: Annotated[int, Option("Candidates that learn side by side, each on its share of the cores.")] = 1
    address: Annotated[
        str | None, Option("Ray cluster whose machines have this one's files: the --jobs candidates learn there.")
    ] = None
    max_length: Annotated[
        int,
        Option("Longest input in tokens; the rest is cut. Default: as the model was trained, or 128.", of_task=True),
    ] = TrainSettings.max_length
    seed: Annotated[int, Option("Seed of weights, order and dropout, and of the bootstrap.")] = TrainSettings.seed
    precision: Annotated[
        Precision, Option("What training multiplies in: auto takes bf16 where the hardware multiplies it natively.")
    ] = TrainSettings.precision
    report_to: Annotated[
        tuple[str, ...],
        Option(
            "Draw the losses of each candidate in tensorboard (files in its own runs/, below OUT/trials), wandb or mlflow; repeat for several. "
            "Default: nowhere."
        ),
    ] = ()
    pooling: Annotated[Pooling | None, PythonOnly("--pooling has it")] = None

    def __post_init__(self) -> None:
        check_trackers(self.report_to)
        check_known(self, traffic=("batches", "alone"))
        check_values(
            self,
            ("max_drop", self.max_drop is None or 0 <= self.max_drop <= LARGEST_DROP, "from 0 to 100 points", "1"),
            ("min_speedup", self.min_speedup is None or 1 <= self.min_speedup <= 1e4, "from 1 to 10,000", "20"),
            ("epochs", self.epochs is None or 0 < self.epochs <= 1000, "above 0 and at most 1,000", "6"),
            ("learning_rate", self.learning_rate is None or 0 < self.learning_rate < 1, "between 0 and 1", "1e-4"),
            ("jobs", 1 <= self.jobs <= 1000, "from 1 to 1,000", "2"),
            length_rule(self.max_length),
            seed_rule(self.seed),
            ("precision", self.precision in ("auto", "fp32", "bf16"), "auto, fp32 or bf16", "auto"),
        )

    def check_drop(self, task: Task) -> None:
        """
        Raises:
            InvalidInput: more points than there are; an error may be of any size.
        """
        if not task.is_scored_by_error:
            check_values(self, ("max_drop", self.max_drop is None or self.max_drop <= 100, "from 0 to 100 points", "1"))

    @property
    def asks_nothing(self) -> bool:
        return all(value is None for value in (self.max_drop, self.min_speedup, self.max_latency, self.max_size))

    @property
    def budget(self) -> Budget:
        return Budget(
            max_drop=1.0 if self.asks_nothing else self.max_drop,
            min_speedup=self.min_speedup,
            max_latency_ms=self.max_latency,
            max_bytes=self.max_size,
        )
