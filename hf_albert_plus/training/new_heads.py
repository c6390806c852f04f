"""A new classifier on a pretrained encoder: it starts from nothing, has many labels and few rows, and must learn faster than what is below it.

At the encoder's own rate the head of a task with dozens of labels hardly leaves its start within a few hundred steps. A task of one's own
therefore gives its new head a rate of its own, and a head of several labels starts at how often each of them is given: the prior of
Lin et al. 2017, section 4.1, label by label. A benchmark's head has the encoder's rate, as its papers have it, unless it reads the mean of the
tokens, which they do not know: that head is a single layer without the dense one that the first token passes through.
"""

from typing import Any

import numpy
import torch

from ..conversion.settings import Pooling
from ..errors import InvalidInput
from ..last_layers import last_layers
from ..tasks.task import Task
from .collators import counted_labels

# Of a new head of one's own data, or on a mean, where no rate is given.
HEAD_LEARNING_RATE = 1e-3


def head_rate(
    task: Task, *, chosen: float | None, learning_rate: float, is_new: bool, pooling: Pooling = "first"
) -> float | None:
    """The peak learning rate of a classifier's head; None for that of its encoder.

    Args:
        pooling: what a new head reads.

    Raises:
        InvalidInput: a rate of 0 or below, or of 1 or above; or one for a head that is trained already.
    """
    if chosen is not None and not 0 < chosen < 1:
        raise InvalidInput("--head-learning-rate must be between 0 and 1", got=chosen, repair="use 1e-3")
    if chosen is not None and not is_new:
        raise InvalidInput(
            "--head-learning-rate is for a new head",
            got=f"{chosen:g}, and the model has one that is trained",
            repair="leave it out, or start from the encoder",
        )
    if chosen is not None or not is_new or (task.benchmark and pooling == "first"):
        return chosen
    return max(HEAD_LEARNING_RATE, learning_rate)


@torch.no_grad()
def start_at_priors(classifier: Any, labels: Any, task: Task) -> None:
    """Lets a new head of several labels begin with the log odds of each label, `[labels]`, among the training rows' `[rows, labels]`,
    and one of tags with the logarithm of each tag's share of the words. A label that all rows or none have counts as one other row.

    Args:
        labels: of encoded rows; of tags, -100 at tokens that do not count.
    """
    layers = last_layers(classifier)
    if task.kind not in ("labels", "tags") or layers is None:
        return
    counted = counted_labels(labels, task)
    given_NC = numpy.eye(task.num_labels)[counted] if task.has_tags else counted.astype(numpy.float64)
    rate_C = given_NC.mean(axis=0).clip(1 / (len(given_NC) + 1), len(given_NC) / (len(given_NC) + 1))
    for layer in layers.values():
        layer.bias.copy_(torch.from_numpy(numpy.log(rate_C if task.has_tags else rate_C / (1 - rate_C))))


def give_head_its_rate(optimizer: torch.optim.Optimizer, model: Any, learning_rate: float) -> None:
    """Moves the parameters outside of the encoder into groups with a rate of their own, weight decay as before."""
    encoder = f"{model.base_model_prefix}."
    head = {id(value) for name, value in model.named_parameters() if not name.startswith(encoder)}
    for group in list(optimizer.param_groups):
        own = [value for value in group["params"] if id(value) in head]
        if own:
            group["params"] = [value for value in group["params"] if id(value) not in head]
            optimizer.add_param_group({**group, "params": own, "lr": learning_rate})
