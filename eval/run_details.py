"""What a document of scores says of a run beside its metrics: its classes, its probabilities, and of several labels its logits."""

from typing import Any

import numpy

from hf_albert_plus.calibration.reliability import reliability
from hf_albert_plus.engines.text_answers import AnswerRule
from hf_albert_plus.eval.class_scores import class_scores, confusions
from hf_albert_plus.eval.tag_scores import entity_scores, unpadded
from hf_albert_plus.tasks.task import Task

# Of the logits that a document of scores holds.
_DECIMALS = 5


def rounded_logits(logits: Any, task: Task) -> numpy.ndarray | None:
    """The logits that a document holds, which whatever it says of them is computed of; None of a task without several labels."""
    return logits.astype(float).round(_DECIMALS) if task.has_several_labels else None


def probabilities_of(logits: Any, task: Task, *, rule: AnswerRule) -> numpy.ndarray | None:
    """The probabilities of each row's labels, or of the tags of every word after each other, `[n, num_labels]`; None of numbers and
    spans."""
    if not rule.decides:
        return None
    return rule.scores(numpy.concatenate(logits) if task.has_tags else logits)


def details_of(
    predicted: numpy.ndarray, labels: numpy.ndarray, task: Task, *, probabilities: numpy.ndarray | None = None
) -> dict[str, Any]:
    """What a run of a task of one's own has of its classes and of its probabilities."""
    if task.benchmark or task.is_regression or task.has_spans:
        return {}
    if task.has_tags:
        said, held = (numpy.concatenate(unpadded(tags_NW)) for tags_NW in (predicted, labels))
        return {
            "classes": class_scores(said, held, task)
            if task.tag_scheme == "plain"
            else entity_scores(predicted, labels, task),
            "confusions": confusions(said, held, task) if task.tag_scheme == "plain" else None,
            "reliability": None if probabilities is None else reliability(probabilities, held),
        }
    return {
        "classes": class_scores(predicted, labels, task),
        "confusions": None if task.has_several_labels else confusions(predicted, labels, task),
        "reliability": None if probabilities is None else reliability(probabilities, labels),
    }
