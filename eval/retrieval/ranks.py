"""Ranks of right answers, and what they are scored by."""

import numpy
from scipy.stats import rankdata

from hf_albert_plus.bootstrap import percentile_interval
from hf_albert_plus.eval.resampling import DRAWS


def mean_ranks(scores: numpy.ndarray, chosen: list[int]) -> numpy.ndarray:
    """Ranks of chosen documents among all, 1 the best; equal scores share the mean of their ranks, so that a model that
    scores all alike gains nothing.

    Shape: `[documents]` -> `[chosen]`.
    """
    ranks: numpy.ndarray = rankdata(-scores)
    return ranks[chosen]


def reciprocal_ranks(ranks: list[numpy.ndarray]) -> numpy.ndarray:
    """1 / rank of each query's best positive, in points, `[queries]`; their mean is MRR."""
    return numpy.array([100 / of_query.min() for of_query in ranks])


def recall_at(ranks: list[numpy.ndarray], k: int) -> float:
    """Share of a query's positives that rank at most k, mean over the queries, in points."""
    return float(numpy.mean([100 * (of_query <= k).mean() for of_query in ranks]))


def roc_auc(scores: numpy.ndarray, labels: numpy.ndarray) -> float | None:
    """How often a positive scores above a negative, ties counting half (Mann and Whitney, 1947), in points; None where
    one of them is missing."""
    positives, negatives = int((labels == 1).sum()), int((labels != 1).sum())
    if not positives or not negatives:
        return None
    above = rankdata(scores)[labels == 1].sum() - positives * (positives + 1) / 2
    return float(100 * above / (positives * negatives))


def mean_interval(values: numpy.ndarray, *, seed: int = 0) -> list[float] | None:
    """Percentile interval of a mean, its values drawn with replacement (Efron and Tibshirani, 1993, ch. 13)."""
    generator = numpy.random.default_rng(seed)
    means = [values[generator.integers(len(values), size=len(values))].mean() for _ in range(DRAWS)]
    return percentile_interval(numpy.array(means))
