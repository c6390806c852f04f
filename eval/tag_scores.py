"""Scores of tags: entities that are right in where they begin, where they end and what they are, and words that have their tag.

A metric of tags is one of sums over sentences, so that a bootstrap over sentences weighs counts, and reads no entity twice.
"""

from collections.abc import Sequence
from typing import Any

import numpy

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.class_scores import ClassScore
from hf_albert_plus.tasks.tag_schemes import Entity, entities, entity_labels
from hf_albert_plus.tasks.task import Task
from hf_albert_plus.tasks.word_pieces import UNSEEN

# Beyond the last word of a row.
_NO_WORD = -1
# The logit of the tags that a word without a piece does not have.
_NEVER = -1e4
# What is counted of a sentence: entities on both sides, predicted and held ones, words with their tag, and words.
_COUNTS = 5


def padded_tags(rows: Sequence[Any]) -> numpy.ndarray:
    """The tags of rows, `[rows, words of the longest]`, -1 beyond the last word."""
    tags_NW = numpy.full((len(rows), max(map(len, rows), default=0)), _NO_WORD)
    for place, row in enumerate(rows):
        tags_NW[place, : len(row)] = row
    return tags_NW


def unpadded(tags_NW: numpy.ndarray) -> list[list[int]]:
    """What `padded_tags` took."""
    return [row[row != _NO_WORD].tolist() for row in tags_NW]


def word_logits(logits_SC: numpy.ndarray, first_pieces: Sequence[int]) -> numpy.ndarray:
    """The logits of a row's words, `[W, C]`: those of their first pieces. A word without one surely has the first tag."""
    pieces_W = numpy.asarray(first_pieces)
    logits_WC: numpy.ndarray = logits_SC[pieces_W]
    logits_WC[pieces_W == UNSEEN] = numpy.r_[0.0, numpy.full(logits_SC.shape[-1] - 1, _NEVER)]
    return logits_WC


def tag_counts(predicted_NW: numpy.ndarray, labels_NW: numpy.ndarray, task: Task) -> numpy.ndarray:
    """What metrics of tags add up, `[rows, 5]`.

    Raises:
        InvalidInput: another number of tags than of words.
    """
    predicted, labels = unpadded(predicted_NW), unpadded(labels_NW)
    counts = numpy.zeros((len(labels), _COUNTS))
    for place, (said, held) in enumerate(zip(predicted, labels, strict=True)):
        if len(said) != len(held):
            raise InvalidInput(
                f"predictions of {task.name} must have a tag for each word",
                got=f"{len(said)} for the {len(held)} words of row {place}",
                repair="predict the same split of the same data",
            )
        found, there = set(_entities(said, task)), set(_entities(held, task))
        right = sum(one == other for one, other in zip(said, held, strict=True))
        counts[place] = len(found & there), len(found), len(there), right, len(held)
    return counts


def entity_scores(predicted_NW: numpy.ndarray, labels_NW: numpy.ndarray, task: Task) -> list[ClassScore]:
    """The score of each kind of entity; precision and recall are 0 where nothing is predicted or held."""
    names = entity_labels(task.labels, _scheme(task))
    counts = {name: numpy.zeros(3) for name in names}
    for said, held in zip(unpadded(predicted_NW), unpadded(labels_NW), strict=True):
        found, there = set(_entities(said, task)), set(_entities(held, task))
        for column, some in enumerate((found & there, found, there)):
            for each in some:
                counts[each.label][column] += 1
    scores = []
    for name, (right, predicted, support) in counts.items():
        precision, recall = right / max(predicted, 1), right / max(support, 1)
        f1 = 2 * right / max(predicted + support, 1)
        points = {"precision": precision, "recall": recall, "f1": f1}
        rounded = {measure: round(100 * float(value), 3) for measure, value in points.items()}
        scores.append(ClassScore(label=name, support=int(support), **rounded))
    return scores


def entity_f1(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """2·TP / (2·TP + FP + FN) over all entities; 0 where neither side has one.

    Args:
        counts: `[rows, 5]` of `tag_counts`; so in all metrics here.
    """
    right, predicted, held, _, _ = (weights @ counts).T
    return 100 * 2 * right / numpy.maximum(predicted + held, 1)


def entity_precision(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Share of the predicted entities that are right; 0 where none is predicted."""
    right, predicted, _, _, _ = (weights @ counts).T
    return 100 * right / numpy.maximum(predicted, 1)


def entity_recall(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Share of the entities that are found; 0 where there is none."""
    right, _, held, _, _ = (weights @ counts).T
    return 100 * right / numpy.maximum(held, 1)


def tag_accuracy(counts: numpy.ndarray, _: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    """Share of the words with their tag."""
    _, _, _, right, words = (weights @ counts).T
    return 100 * right / numpy.maximum(words, 1)


def _entities(ids: Sequence[Any], task: Task) -> list[Entity]:
    return entities([task.labels[number] for number in ids], _scheme(task))


def _scheme(task: Task) -> Any:
    return task.tag_scheme or "plain"
