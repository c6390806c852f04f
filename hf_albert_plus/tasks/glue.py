"""The GLUE tasks as one declarative table (Wang et al., 2018; columns and label ids as in nyu-mll/glue)."""

from typing import Any

from ..errors import InvalidInput, suggest
from .task import Task

PROTOCOL = "GLUE 1.0.0"


def _sizes(train: int, validation: int, test: int) -> dict[str, int]:
    return {"train": train, "validation": validation, "test": test}


_GLUE: dict[str, Any] = {"benchmark": "glue", "protocol": PROTOCOL}
_PAIR = ("sentence1", "sentence2")
_NLI: dict[str, Any] = {"columns": ("premise", "hypothesis"), "labels": ("entailment", "neutral", "contradiction")}
_LARGE: dict[str, Any] = {"epochs": 1, "batch_size": 32}
_SMALL: dict[str, Any] = {"epochs": 4, "batch_size": 16}

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="cola",
            title="CoLA",
            **_GLUE,
            columns=("sentence",),
            labels=("unacceptable", "acceptable"),
            metrics=("matthews",),
            sizes=_sizes(8551, 1043, 1063),
            epochs=4,
            batch_size=32,
        ),
        Task(
            name="sst2",
            title="SST-2",
            **_GLUE,
            columns=("sentence",),
            labels=("negative", "positive"),
            metrics=("accuracy",),
            sizes=_sizes(67349, 872, 1821),
            **_LARGE,
        ),
        Task(
            name="mrpc",
            title="MRPC",
            **_GLUE,
            columns=_PAIR,
            labels=("not_equivalent", "equivalent"),
            metrics=("accuracy", "f1"),
            sizes=_sizes(3668, 408, 1725),
            **_SMALL,
        ),
        Task(
            name="qqp",
            title="QQP",
            **_GLUE,
            columns=("question1", "question2"),
            labels=("not_duplicate", "duplicate"),
            metrics=("accuracy", "f1"),
            sizes=_sizes(363846, 40430, 390965),
            **_LARGE,
        ),
        Task(
            name="stsb",
            title="STS-B",
            **_GLUE,
            columns=_PAIR,
            kind="number",
            bounds=(0.0, 5.0),
            metrics=("pearson", "spearman"),
            sizes=_sizes(5749, 1500, 1379),
            **_SMALL,
        ),
        Task(
            name="mnli",
            title="MNLI",
            **_GLUE,
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
            name="qnli",
            title="QNLI",
            benchmark="glue",
            protocol=f"{PROTOCOL}, QNLI v2 of January 2019",
            columns=("question", "sentence"),
            labels=("entailment", "not_entailment"),
            metrics=("accuracy",),
            sizes=_sizes(104743, 5463, 5463),
            **_LARGE,
        ),
        Task(
            name="rte",
            title="RTE",
            **_GLUE,
            columns=_PAIR,
            labels=("entailment", "not_entailment"),
            metrics=("accuracy",),
            sizes=_sizes(2490, 277, 3000),
            **_SMALL,
        ),
        Task(
            name="wnli",
            title="WNLI",
            **_GLUE,
            columns=_PAIR,
            labels=("not_entailment", "entailment"),
            metrics=("accuracy",),
            sizes=_sizes(635, 71, 146),
            epochs=3,
            batch_size=16,
        ),
        Task(
            name="ax",
            title="AX",
            **_GLUE,
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


def get_task(name: str | Task) -> Task:
    """The GLUE task of that name; a task as it is.

    Raises:
        InvalidInput: there is none.
    """
    if isinstance(name, Task):
        return name
    if name not in TASKS:
        raise InvalidInput("--task must be a GLUE task", got=repr(name), repair=suggest(name, list(TASKS)))
    return TASKS[name]
