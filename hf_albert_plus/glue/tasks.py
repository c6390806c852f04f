"""The GLUE tasks as one declarative table (Wang et al., 2018; columns and label ids as in nyu-mll/glue)."""

from dataclasses import dataclass, field

from ..errors import InvalidInput, suggest


@dataclass(frozen=True)
class Task:
    """One GLUE task.

    Attributes:
        columns: text columns, one or a pair.
        labels: label names in the order of their ids; empty for regression.
        metrics: the published metrics; the first one is *the* score where one number is shown.
        evaluation: report row -> split it is scored on. MNLI's two halves are rows of their own.
        epochs, batch_size: plain fine-tuning defaults: small sets are seen more often.
    """

    name: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    epochs: float
    batch_size: int
    evaluation: dict[str, str] = field(default_factory=dict)

    @property
    def is_regression(self) -> bool:
        return not self.labels

    @property
    def num_labels(self) -> int:
        return max(len(self.labels), 1)

    @property
    def rows(self) -> dict[str, str]:
        return self.evaluation or {self.name: "validation"}


_PAIR = ("sentence1", "sentence2")
_ENTAILMENT = ("entailment", "not_entailment")

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("cola", ("sentence",), ("unacceptable", "acceptable"), ("matthews",), epochs=4, batch_size=32),
        Task("sst2", ("sentence",), ("negative", "positive"), ("accuracy",), epochs=1, batch_size=32),
        Task("mrpc", _PAIR, ("not_equivalent", "equivalent"), ("accuracy", "f1"), epochs=4, batch_size=16),
        Task(
            "qqp",
            ("question1", "question2"),
            ("not_duplicate", "duplicate"),
            ("accuracy", "f1"),
            epochs=1,
            batch_size=32,
        ),
        Task("stsb", _PAIR, (), ("pearson", "spearman"), epochs=4, batch_size=16),
        Task(
            "mnli",
            ("premise", "hypothesis"),
            ("entailment", "neutral", "contradiction"),
            ("accuracy",),
            epochs=1,
            batch_size=32,
            evaluation={"mnli": "validation_matched", "mnli-mm": "validation_mismatched"},
        ),
        Task("qnli", ("question", "sentence"), _ENTAILMENT, ("accuracy",), epochs=1, batch_size=32),
        Task("rte", _PAIR, _ENTAILMENT, ("accuracy",), epochs=4, batch_size=16),
        Task("wnli", _PAIR, ("not_entailment", "entailment"), ("accuracy",), epochs=3, batch_size=16),
    )
}


def get_task(name: str) -> Task:
    """The task of that name.

    Raises:
        InvalidInput: there is none.
    """
    if name not in TASKS:
        raise InvalidInput("--task must be a GLUE task", got=repr(name), repair=suggest(name, list(TASKS)))
    return TASKS[name]


__all__ = ["TASKS", "Task", "get_task"]
