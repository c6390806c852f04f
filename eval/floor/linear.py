"""Linear classifiers of features, by scikit-learn: logistic regression for labels, ridge regression for numbers.

F features, C labels.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from hf_albert_plus.tasks.task import Task

# The logit of a label that no training row has, or all have.
NEVER = 1e3
_ITERATIONS = 300
# The gradient at which a regression is finished; words are many more than texts, and their tags change little after it.
_TOLERANCE, _TOLERANCE_OF_WORDS = 1e-4, 1e-3


@dataclass(frozen=True)
class Linear:
    """Logits of features `[rows, F]`, dense or sparse.

    Attributes:
        weight_FC, bias_C: in fp32, of features as they are.
        strength: C of the regression that was kept, the inverse of its penalty.
    """

    weight_FC: numpy.ndarray
    bias_C: numpy.ndarray
    strength: float

    def logits(self, features: Any) -> numpy.ndarray:
        """`[rows, C]`; of a task of numbers the number itself, `[rows, 1]`."""
        return numpy.asarray(features @ self.weight_FC) + self.bias_C


def fits(features: Any, labels: numpy.ndarray, task: Task, *, strengths: Sequence[float]) -> Iterator[Linear]:
    """The classifier of each strength, weakest first, fitted on training rows.

    Args:
        labels: as `load_split` has them: ids, values, or a list of 0 and 1 a row; of tags the ids of all words.
    """
    scale_F = _scales(features)
    scaled = features.multiply(1 / scale_F).tocsr() if hasattr(features, "tocsr") else features / scale_F
    for strength in sorted(strengths):
        if task.is_regression:
            weight_FC, bias_C = _ridge(scaled, labels, strength)
        elif task.has_several_labels:
            columns = [_one_label(scaled, column, strength) for column in numpy.asarray(labels).T]
            weight_FC, bias_C = (numpy.stack(parts, axis=-1) for parts in zip(*columns, strict=True))
        else:
            weight_FC, bias_C = _classes(scaled, labels, task, strength)
        yield Linear((weight_FC / scale_F[:, None]).astype(numpy.float32), bias_C.astype(numpy.float32), strength)


def _scales(features: Any) -> numpy.ndarray:
    """The standard deviation of each dense feature; sparse ones stay as they are: TF-IDF has scaled them, or they are 0 and 1."""
    if hasattr(features, "tocsr"):
        return numpy.ones(features.shape[1])
    scale_F: numpy.ndarray = features.std(axis=0)
    return numpy.where(scale_F > 0, scale_F, 1.0)


def _fitted(model: Any, features: Any, labels: numpy.ndarray) -> Any:
    """A regression after at most so many iterations. One that has not converged until then is kept: the strengths are compared by what they say
    of other rows."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, labels)


def _classes(features: Any, labels: numpy.ndarray, task: Task, strength: float) -> tuple[numpy.ndarray, numpy.ndarray]:
    from sklearn.linear_model import LogisticRegression

    weight_FC = numpy.zeros((features.shape[1], task.num_labels))
    bias_C = numpy.full(task.num_labels, -NEVER)
    tolerance = _TOLERANCE_OF_WORDS if task.has_tags else _TOLERANCE
    model = _fitted(LogisticRegression(C=strength, max_iter=_ITERATIONS, tol=tolerance), features, labels)
    known = model.classes_
    if len(known) == 2:  # scikit-learn keeps the difference of the two alone
        weight_FC[:, known[1]], bias_C[known] = model.coef_[0], (0.0, model.intercept_[0])
    else:
        weight_FC[:, known], bias_C[known] = model.coef_.T, model.intercept_
    return weight_FC, bias_C


def _one_label(features: Any, holds: numpy.ndarray, strength: float) -> tuple[numpy.ndarray, numpy.floating]:
    """Of one of several labels. The two sides weigh the same, or a half would be out of reach of a rare label."""
    from sklearn.linear_model import LogisticRegression

    if holds.min() == holds.max():
        return numpy.zeros(features.shape[1]), numpy.float64(NEVER if holds.all() else -NEVER)
    regression = LogisticRegression(C=strength, max_iter=_ITERATIONS, class_weight="balanced")
    model = _fitted(regression, features, holds)
    return model.coef_[0], model.intercept_[0]


def _ridge(features: Any, values: numpy.ndarray, strength: float) -> tuple[numpy.ndarray, numpy.ndarray]:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1 / strength).fit(features, values)
    return model.coef_[:, None], numpy.array([model.intercept_])
