"""Reliability: how often a classifier is right where it says that it is so sure (Guo et al., 2017, section 2)."""

from dataclasses import dataclass
from typing import Annotated

import numpy

from ..records.limits import limited

BINS = 15
Share = Annotated[float, limited(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """The answers whose probability is above `low` and at most `high`.

    Attributes:
        answers: how many there are.
        probability: their mean.
        right: share of them that are right.
    """

    low: Share
    high: Share
    answers: Annotated[int, limited(ge=1)]
    probability: Share
    right: Share


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How far probabilities and shares of right answers lie apart.

    Attributes:
        ece: expected calibration error: Σ |bin| / n · |right − probability| over the bins (Guo et al., 2017, eq. 3), from 0 to 1.
        bins: of equal width, those that hold answers.
    """

    ece: Share
    bins: Annotated[list[ReliabilityBin], limited(min_length=1)]


def reliability(probabilities_NC: numpy.ndarray, labels: numpy.ndarray) -> Reliability:
    """The reliability of the best labels; of several labels, that of every pair of a row and a label.

    Args:
        labels: ids, `[N]`; or 1 for each of several labels that a row has, `[N, C]`.
    """
    if labels.ndim == 2:
        sure, right = probabilities_NC.ravel(), labels.ravel().astype(float)
    else:
        sure, right = probabilities_NC.max(axis=-1), (probabilities_NC.argmax(axis=-1) == labels).astype(float)
    # A bin has its upper bound and not its lower one; only the first has both.
    places = numpy.clip(numpy.ceil(sure * BINS).astype(int) - 1, 0, BINS - 1)
    bins = [
        ReliabilityBin(
            low=place / BINS,
            high=(place + 1) / BINS,
            answers=int((places == place).sum()),
            probability=float(sure[places == place].mean()),
            right=float(right[places == place].mean()),
        )
        for place in numpy.unique(places).tolist()
    ]
    ece = sum(each.answers * abs(each.right - each.probability) for each in bins) / len(sure)
    return Reliability(ece=float(ece), bins=bins)
