"""Numbers are learned in standard units, whatever their own are: a price of 250,000 is as far as a rate of 0.02 can go.

While a classifier learns a task of numbers of one's own, its labels are (y - mean) / deviation of the training rows, and so are its
answers. Then the last layer takes over mean and deviation, so that the model that is kept answers in the numbers' own unit and is an
ordinary one. A benchmark's numbers stay as its papers have them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from ..last_layers import last_layers
from ..records.progress import say
from ..tasks.task import Task


@dataclass(frozen=True)
class Units:
    """Mean and standard deviation of the training rows' numbers."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, labels: Any, task: Task, classifier: Any) -> "Units | None":
        """The units of a task's training rows; None where there are none to take over: a benchmark's task, one of labels, a single
        number, or a classifier without a linear last layer."""
        if not task.has_own_unit:
            return None
        if last_layers(classifier) is None:
            say(f"{type(classifier).__name__} ends in no linear layer: its numbers are learned in their own unit")
            return None
        values = numpy.asarray(labels, dtype=numpy.float64)
        deviation = float(values.std())
        return cls(float(values.mean()), deviation) if deviation > 0 else None

    def standard(self, values: Any) -> Any:
        """Numbers of any shape in standard units."""
        return (values - self.mean) / self.deviation

    @torch.no_grad()
    def enter(self, classifier: Any) -> None:
        """Lets a classifier that answers in the numbers' unit answer in standard units."""
        for layer in (last_layers(classifier) or {}).values():
            layer.weight.div_(self.deviation)
            layer.bias.sub_(self.mean).div_(self.deviation)

    @torch.no_grad()
    def leave(self, classifier: Any) -> None:
        """The way back: w·x + b in standard units is (w·d)·x + b·d + mean in the numbers' own."""
        for layer in (last_layers(classifier) or {}).values():
            layer.weight.mul_(self.deviation)
            layer.bias.mul_(self.deviation).add_(self.mean)


@contextmanager
def standard_units(classifier: Any, rows: Any, *, task: Task, answers: bool) -> Iterator[Any]:
    """The rows of a training with their labels in standard units, if the task has some; the classifier is in them meanwhile.

    Args:
        answers: whether the classifier answers in the numbers' unit already, because it was trained before.
    """
    units = Units.of(rows["labels"][:], task, classifier) if task.is_regression else None
    if units is None:
        yield rows
        return
    if answers:
        units.enter(classifier)
    labels = units.standard(numpy.asarray(rows["labels"][:], dtype=numpy.float64)).tolist()
    yield rows.remove_columns("labels").add_column("labels", labels)
    units.leave(classifier)
