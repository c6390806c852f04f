"""Thresholds of several labels: the probability from which a classifier gives each, fitted where its training ends.

They are fitted on training rows. A model is surer of rows that it was trained on than of others, so the F1 on these rows is higher than on
new ones, and a threshold fits these rows better than others. It is done all the same: the validation split is what the model is judged by, and a
threshold that was fitted on it would make that judgement as rosy. What is carried over is on which side of a half a label's probabilities
lie, which a half for every label misses for rare ones. A label that is well separated at a half keeps it.
"""

from typing import Any

import numpy
from transformers import PreTrainedTokenizerBase

from ..engines.classifier_config import DEFAULT_THRESHOLD, answer_rule_of
from ..tasks.joined_answers import rows_of_texts
from ..tasks.long_rows import numbers_of
from ..tasks.task import Task
from .collators import TextCollator, joined
from .row_logits import row_logits

# Rows with a label below which its threshold would be theirs alone.
_FEWEST = 5
# Training texts that are looked at; of more, so many are drawn.
_MOST_TEXTS = 20_000
# How near to 0 and 1 a threshold may lie, which no probability could both reach and miss.
_EDGE = 1e-6


def set_label_thresholds(model: Any, rows: Any, *, tokenizer: PreTrainedTokenizerBase, task: Task) -> None:
    """Puts the thresholds of a task with several labels into a classifier's config; a classifier of another task has none.

    Args:
        rows: encoded training rows with their labels and lengths.
    """
    if not task.has_several_labels:
        if hasattr(model.config, "label_thresholds"):
            del model.config.label_thresholds
        return
    numbers = numbers_of(rows)
    of_texts = rows_of_texts(range(len(rows)) if numbers is None else numbers)
    drawn = numpy.random.default_rng(0).permutation(len(of_texts))[:_MOST_TEXTS]
    chosen = [row for text in drawn for row in of_texts[text]]
    rows = rows.select(sorted(chosen, key=rows["length"][:].__getitem__))
    logits_NC, labels_NC = joined(row_logits(model, rows.to_list(), TextCollator(tokenizer)).numpy(), rows, task)
    probabilities_NC = answer_rule_of(model.config).scores(logits_NC)
    model.config.label_thresholds = fit_label_thresholds(probabilities_NC, labels_NC)


def fit_label_thresholds(probabilities_NC: numpy.ndarray, labels_NC: numpy.ndarray) -> list[float]:
    """The threshold of each label with the highest F1 on these rows; a half of a label that fewer than five rows have.

    Args:
        probabilities_NC, labels_NC: of rows and labels; a label holds where it is 1.
    """
    columns = zip(probabilities_NC.T, labels_NC.T, strict=True)
    return [
        _best_threshold(probabilities_N, labels_N) if labels_N.sum() >= _FEWEST else DEFAULT_THRESHOLD
        for probabilities_N, labels_N in columns
    ]


def _best_threshold(probabilities_N: numpy.ndarray, labels_N: numpy.ndarray) -> float:
    """The threshold nearest to a half among those with the highest F1: a half itself, or midway between two probabilities."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, cuts = precision_recall_curve(labels_N, probabilities_N)
    f1 = 2 * precision * recall / numpy.maximum(precision + recall, numpy.finfo(float).tiny)
    # Any threshold above the probability below a cut and up to the cut gives the same rows.
    below = numpy.r_[0.0, cuts[:-1]]
    best = numpy.flatnonzero(numpy.isclose(f1[:-1], f1[:-1].max(), rtol=0, atol=1e-12))
    if ((below[best] < DEFAULT_THRESHOLD) & (cuts[best] >= DEFAULT_THRESHOLD)).any():
        return DEFAULT_THRESHOLD
    midway = (below[best] + cuts[best]) / 2
    nearest = midway[numpy.abs(midway - DEFAULT_THRESHOLD).argmin()]
    return float(numpy.clip(nearest, _EDGE, 1 - _EDGE))
