"""Scores of answers that are spans: exact match and F1 of their texts, as SQuAD's official script has them.

A metric of spans is one of sums over questions, so that a bootstrap over questions weighs counts, and compares no text twice.
"""

from collections.abc import Sequence
from typing import Any

import numpy

from hf_albert_plus.tasks.answer_texts import exact_match, text_f1

# What is counted of a question: the F1 of its answer, whether it matches, and whether there is an answer.
_COUNTS = 3


def as_objects(values: Sequence[Any]) -> numpy.ndarray:
    """Texts, or lists of them, one an example, `[examples]`."""
    objects = numpy.empty(len(values), dtype=object)
    objects[:] = list(values)
    return objects


def right_texts(labels: Sequence[Any]) -> numpy.ndarray:
    """The texts of the right answers to each question of a split, `[examples]`; none where there is no answer."""
    return as_objects([list(answers["text"]) for answers in labels])


def span_counts(predicted: numpy.ndarray, right: numpy.ndarray) -> numpy.ndarray:
    """What metrics of spans add up, `[examples, 3]`.

    Args:
        predicted: the text of each answer, empty for none, as `as_objects` gives them.
        right: the texts of the right ones, in a list each.
    """
    counts = numpy.zeros((len(right), _COUNTS))
    for place, (said, texts) in enumerate(zip(predicted, right, strict=True)):
        counts[place] = text_f1(said, texts), exact_match(said, texts), bool(texts)
    return counts


def answer_f1(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """The mean F1 of the answers.

    Args:
        counts: `[examples, 3]` of `span_counts`; so in all metrics here.
    """
    return _mean(counts[:, 0], numpy.ones(len(counts)), weights)


def exact_matches(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Share of the answers that match a right one."""
    return _mean(counts[:, 1], numpy.ones(len(counts)), weights)


def answered_f1(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """The mean F1 of the questions that have an answer; not defined where none has."""
    return _mean(counts[:, 0], counts[:, 2], weights)


def answered_exact_matches(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Share of matches among the questions that have an answer; not defined where none has."""
    return _mean(counts[:, 1], counts[:, 2], weights)


def no_answer_accuracy(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Share of the questions without an answer that are given none; not defined where all have one."""
    return _mean(counts[:, 1], 1 - counts[:, 2], weights)


def _mean(values: numpy.ndarray, is_counted: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """The mean of the counted examples in points, `[draws]`, NaN where none is."""
    total = weights @ is_counted
    return numpy.where(total > 0, 100 * (weights @ (values * is_counted)) / numpy.maximum(total, 1), numpy.nan)
