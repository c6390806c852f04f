"""One temperature that logits are divided by: sure answers become as sure as they are right (Guo et al., 2017, section 4.2)."""

from dataclasses import dataclass

import numpy

from ..engines.text_answers import AnswerRule
from ..errors import InvalidInput
from .reliability import reliability

# Temperatures are looked for from a twentieth to twenty: beyond, rows are all right or all wrong, and say nothing of how sure to be.
_LARGEST = 20.0
# A threshold stays so far from 0 and 1, where no probability would be beyond it.
_NEAREST = 1e-6


@dataclass(frozen=True)
class Trust:
    """What probabilities are worth: the negative log likelihood of the labels, and the expected calibration error from 0 to 1."""

    nll: float
    ece: float


@dataclass(frozen=True)
class Temperature:
    """A temperature, and what it makes of probabilities.

    Attributes:
        temperature: found on all rows.
        before: the logits as they are.
        after: each row's logits divided by a temperature that was found on other rows.
        of_folds: those temperatures.
    """

    temperature: float
    before: Trust
    after: Trust
    of_folds: list[float]


def fit_temperature(logits_NC: numpy.ndarray, labels: numpy.ndarray, rule: AnswerRule) -> float:
    """The temperature with the least negative log likelihood.

    Args:
        labels: ids, `[N]`; or 1 for each of several labels that a row has, `[N, C]`.
    """
    from scipy.optimize import minimize_scalar

    edge = float(numpy.log(_LARGEST))
    found = minimize_scalar(
        lambda log: negative_log_likelihood(logits_NC / numpy.exp(log), labels, rule),
        bounds=(-edge, edge),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(numpy.exp(found.x))


def cross_fit(
    logits_NC: numpy.ndarray, labels: numpy.ndarray, rule: AnswerRule, *, folds: int, seed: int
) -> Temperature:
    """A temperature on all rows, judged on rows that it was not found on.

    Raises:
        InvalidInput: fewer than two rows a fold.
    """
    from sklearn.model_selection import KFold

    if len(labels) < 2 * folds:
        raise InvalidInput(
            f"--folds {folds} need at least {2 * folds} rows to find a temperature on, two a fold",
            got=len(labels),
            repair="use fewer --folds, or more rows",
        )
    judged_NC, of_folds = logits_NC.astype(float), []
    for others, held_out in KFold(folds, shuffle=True, random_state=seed).split(logits_NC):
        of_folds.append(fit_temperature(logits_NC[others], labels[others], rule))
        judged_NC[held_out] /= of_folds[-1]
    return Temperature(
        temperature=fit_temperature(logits_NC, labels, rule),
        before=_trust(logits_NC, labels, rule),
        after=_trust(judged_NC, labels, rule),
        of_folds=of_folds,
    )


def negative_log_likelihood(logits_NC: numpy.ndarray, labels: numpy.ndarray, rule: AnswerRule) -> float:
    """The mean over rows of −log p of their label; over pairs of a row and a label where there may be several."""
    wide = logits_NC.astype(float)
    if rule.has_several:
        return float(numpy.logaddexp(0, numpy.where(labels > 0, -wide, wide)).mean())
    largest = wide.max(axis=-1, keepdims=True)
    total = largest[:, 0] + numpy.log(numpy.exp(wide - largest).sum(axis=-1))
    return float((total - wide[numpy.arange(len(wide)), labels]).mean())


def moved_threshold(threshold: float, temperature: float) -> float:
    """Where a threshold lies once logits are divided by a temperature: the same rows reach it."""
    moved = 1 / (1 + numpy.exp(-numpy.log(threshold / (1 - threshold)) / temperature))
    return float(numpy.clip(moved, _NEAREST, 1 - _NEAREST))


def _trust(logits_NC: numpy.ndarray, labels: numpy.ndarray, rule: AnswerRule) -> Trust:
    return Trust(
        nll=negative_log_likelihood(logits_NC, labels, rule), ece=reliability(rule.scores(logits_NC), labels).ece
    )
