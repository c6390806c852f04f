"""The GLUE tasks as one declarative table (Wang et al., 2018; columns and label ids as in nyu-mll/glue)."""

from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidInput, suggest

PROTOCOL = "GLUE 1.0.0"


@dataclass(frozen=True)
class Task:
    """One GLUE task.

    Attributes:
        title: as published: the folder of the TSV distribution, and the file of a submission.
        columns: text columns, one or a pair.
        labels: label names in the order of their ids; empty for regression.
        metrics: the published metrics; the first one is *the* score where one number is shown.
        sizes: split -> rows that GLUE has in it.
        epochs, batch_size: plain fine-tuning defaults: small sets are seen more often.
        evaluation: report row -> split it is scored on. MNLI's two halves are rows of their own.
        tests: file of a submission -> split that it answers.
        trained_as: the task whose models answer this one, where it has no training split.
        protocol: version of the data.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    sizes: dict[str, int]
    epochs: float
    batch_size: int
    evaluation: dict[str, str] = field(default_factory=dict)
    tests: dict[str, str] = field(default_factory=dict)
    trained_as: str | None = None
    protocol: str = PROTOCOL

    @property
    def is_regression(self) -> bool:
        return not self.labels

    @property
    def num_labels(self) -> int:
        return max(len(self.labels), 1)

    @property
    def rows(self) -> dict[str, str]:
        return self.evaluation or {self.name: "validation"}

    @property
    def submission(self) -> dict[str, str]:
        return self.tests or {self.title: "test"}


def _sizes(train: int, validation: int, test: int) -> dict[str, int]:
    return {"train": train, "validation": validation, "test": test}


_PAIR = ("sentence1", "sentence2")
_NLI: dict[str, Any] = {"columns": ("premise", "hypothesis"), "labels": ("entailment", "neutral", "contradiction")}
_LARGE: dict[str, Any] = {"epochs": 1, "batch_size": 32}
_SMALL: dict[str, Any] = {"epochs": 4, "batch_size": 16}

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            "cola",
            "CoLA",
            columns=("sentence",),
            labels=("unacceptable", "acceptable"),
            metrics=("matthews",),
            sizes=_sizes(8551, 1043, 1063),
            epochs=4,
            batch_size=32,
        ),
        Task(
            "sst2",
            "SST-2",
            columns=("sentence",),
            labels=("negative", "positive"),
            metrics=("accuracy",),
            sizes=_sizes(67349, 872, 1821),
            **_LARGE,
        ),
        Task(
            "mrpc",
            "MRPC",
            columns=_PAIR,
            labels=("not_equivalent", "equivalent"),
            metrics=("accuracy", "f1"),
            sizes=_sizes(3668, 408, 1725),
            **_SMALL,
        ),
        Task(
            "qqp",
            "QQP",
            columns=("question1", "question2"),
            labels=("not_duplicate", "duplicate"),
            metrics=("accuracy", "f1"),
            sizes=_sizes(363846, 40430, 390965),
            **_LARGE,
        ),
        Task(
            "stsb",
            "STS-B",
            columns=_PAIR,
            labels=(),
            metrics=("pearson", "spearman"),
            sizes=_sizes(5749, 1500, 1379),
            **_SMALL,
        ),
        Task(
            "mnli",
            "MNLI",
            metrics=("accuracy",),
            sizes={
                "train": 392702,
                "validation_matched": 9815,
                "validation_mismatched": 9832,
                "test_matched": 9796,
                "test_mismatched": 9847,
            },
            evaluation={"mnli": "validation_matched", "mnli-mm": "validation_mismatched"},
            tests={"MNLI-m": "test_matched", "MNLI-mm": "test_mismatched"},
            **_NLI,
            **_LARGE,
        ),
        Task(
            "qnli",
            "QNLI",
            columns=("question", "sentence"),
            labels=("entailment", "not_entailment"),
            metrics=("accuracy",),
            sizes=_sizes(104743, 5463, 5463),
            protocol=f"{PROTOCOL}, QNLI v2 of January 2019",
            **_LARGE,
        ),
        Task(
            "rte",
            "RTE",
            columns=_PAIR,
            labels=("entailment", "not_entailment"),
            metrics=("accuracy",),
            sizes=_sizes(2490, 277, 3000),
            **_SMALL,
        ),
        Task(
            "wnli",
            "WNLI",
            columns=_PAIR,
            labels=("not_entailment", "entailment"),
            metrics=("accuracy",),
            sizes=_sizes(635, 71, 146),
            epochs=3,
            batch_size=16,
        ),
        Task(
            "ax",
            "AX",
            metrics=("matthews",),
            sizes={"test": 1104},
            evaluation={"ax": "test"},
            trained_as="mnli",
            **_NLI,
            **_LARGE,
        ),
    )
}


# Their label 1 says that the second text matches the first; that of rte and qnli says that it does not follow.
MATCHING = ("mrpc", "qqp")


def get_task(name: str) -> Task:
    """The task of that name.

    Raises:
        InvalidInput: there is none.
    """
    if name not in TASKS:
        raise InvalidInput("--task must be a GLUE task", got=repr(name), repair=suggest(name, list(TASKS)))
    return TASKS[name]
