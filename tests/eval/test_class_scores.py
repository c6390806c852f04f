"""Scores and confusions of classes, and reliability, against scikit-learn, counting one by one, and the formula written out."""

import numpy
import pytest
import sklearn.metrics

from hf_albert_plus.calibration.reliability import BINS, reliability
from hf_albert_plus.eval.class_scores import class_scores, confusions
from hf_albert_plus.tasks.task import MEASURES, Task


def own(kind, count):
    labels = tuple(f"label {number}" for number in range(count))
    return Task(name="own", columns=("text",), labels=labels, kind=kind, metrics=MEASURES[kind], epochs=1, batch_size=8)


def drawn(kind, count, rows=400):
    random = numpy.random.default_rng(count)
    if kind == "labels":
        labels = (random.random((rows, count)) < 0.3).astype(int)
        return numpy.where(random.random((rows, count)) < 0.8, labels, 1 - labels), labels
    labels = random.integers(count - 1, size=rows)  # nothing has the last one
    return numpy.where(random.random(rows) < 0.6, labels, random.integers(count, size=rows)), labels


@pytest.mark.parametrize(("kind", "count"), [("classes", 3), ("classes", 30), ("labels", 5)])
def test_scores_of_classes_are_scikit_learns(kind, count):
    predicted, labels = drawn(kind, count)
    found = class_scores(predicted, labels, own(kind, count))
    for number, each in enumerate(found):
        held, said = (rows[:, number] if kind == "labels" else rows == number for rows in (labels, predicted))
        assert each.label == f"label {number}"
        assert each.support == held.sum()
        for name in ("precision", "recall", "f1"):
            expected = getattr(sklearn.metrics, f"{name}_score")(held, said, zero_division=0)
            assert getattr(each, name) == pytest.approx(100 * expected, abs=1e-3)


@pytest.mark.parametrize("count", [3, 20, 21, 60])
def test_confusions_are_counted(count):
    predicted, labels = drawn("classes", count)
    found = confusions(predicted, labels, own("classes", count))
    matrix = sklearn.metrics.confusion_matrix(labels, predicted, labels=range(count))
    assert found.matrix == (matrix.tolist() if count <= 20 else None)
    pairs = [(i, j, int(matrix[i, j])) for i in range(count) for j in range(count) if i != j and matrix[i, j]]
    pairs.sort(key=lambda pair: -pair[2])
    assert [(each.label, each.predicted, each.rows) for each in found.largest] == [
        (f"label {i}", f"label {j}", rows) for i, j, rows in pairs[:20]
    ]


@pytest.mark.parametrize("several", [False, True])
def test_reliability_is_the_formula(several):
    random = numpy.random.default_rng(several)
    probabilities = random.dirichlet(numpy.ones(4) * 0.4, size=300)
    probabilities[:3] = [[0, 0, 1, 0], [0.4, 0.2, 0.2, 0.2], [0.25, 0.25, 0.25, 0.25]]  # on bounds of bins
    labels = (random.random((300, 4)) < 0.3).astype(int) if several else random.integers(4, size=300)
    if several:
        answers = [(probabilities[n, c], labels[n, c]) for n in range(300) for c in range(4)]
    else:
        answers = [(row.max(), row.argmax() == label) for row, label in zip(probabilities, labels, strict=True)]
    expected = 0.0
    for number in range(BINS):
        low, high = number / BINS, (number + 1) / BINS
        inside = [(sure, right) for sure, right in answers if low < sure <= high or (number == 0 and sure == 0)]
        if inside:
            gap = numpy.mean([right for _, right in inside]) - numpy.mean([sure for sure, _ in inside])
            expected += len(inside) / len(answers) * abs(gap)
    found = reliability(probabilities, labels)
    assert found.ece == pytest.approx(expected)
    assert sum(each.answers for each in found.bins) == len(answers)


def test_probabilities_that_are_right_as_often_as_they_say_have_no_error():
    probabilities = numpy.tile([0.75, 0.25], (400, 1))
    labels = numpy.array([0, 0, 0, 1] * 100)
    assert reliability(probabilities, labels).ece == pytest.approx(0)
    assert reliability(probabilities, 1 - labels).ece == pytest.approx(0.5)
