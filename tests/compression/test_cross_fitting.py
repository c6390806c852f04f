"""Thresholds that are judged on rows that they were not found on: against a plain walk over the folds, and on exits that know nothing."""

import pytest
import torch

from hf_albert_plus.compression.exits.criteria import taken_exits
from hf_albert_plus.compression.exits.cross_fitting import fit_threshold
from hf_albert_plus.compression.exits.thresholds import SearchRule
from hf_albert_plus.errors import InvalidInput
from tests.support.exits import best_threshold

RULE = SearchRule(layers=(1, 2, 3), kind="entropy", exit_costs=(0.1, 0.1))


def accuracy(logits_BC, labels):
    return 100 * float((logits_BC.argmax(-1) == torch.tensor(labels)).double().mean())


def rows(*, knows, count=200, seed=0):
    """What exits say of rows, and their labels: the more an exit knows, the more often it is right, and the surer it is then."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (count,), generator=generator)
    right = torch.nn.functional.one_hot(labels, 2).double()
    logits = torch.stack([torch.randn(count, 2, generator=generator).double() + k * right for k in knows])
    return logits, labels.tolist()


def fit(logits, labels, **settings):
    given = {"rule": RULE, "score": accuracy, "max_drop": 2.0, "folds": 4, "seed": 3, **settings}
    return fit_threshold(logits, labels=labels, **given)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["entropy", "confidence", "patience"])
def test_each_fold_is_judged_by_the_threshold_of_the_others(kind):
    logits, labels = rows(knows=(1.5, 2.5, 3.0))
    rule = SearchRule((1, 2, 3), kind, (0.1, 0.1))
    found = fit(logits, labels, rule=rule, max_drop=20.0)
    cross_fitted = found.cross_fitted
    assert cross_fitted.allowance == 20.0
    order = torch.randperm(200, generator=torch.Generator().manual_seed(3)).tolist()
    said, depths = {}, {}
    for fold in range(4):
        judged = order[50 * fold : 50 * (fold + 1)]
        others = sorted(set(range(200)) - set(judged))
        best = best_threshold(
            logits[:, others], layers=(1, 2, 3), kind=kind, max_drop=20.0, exit_costs=(0.1, 0.1),
            score=lambda each, others=others: accuracy(each, [labels[row] for row in others]),
        )  # fmt: skip
        exits = [*best.kept, 2]
        for row in judged:
            (taken,) = taken_exits(logits[exits][:, [row]], best.best.criterion).tolist()
            said[row], depths[row] = logits[exits[taken], row], exits[taken] + 1
    score = accuracy(torch.stack([said[row] for row in range(200)]), labels)
    full = accuracy(logits[-1], labels)
    assert (cross_fitted.rows, cross_fitted.folds) == (200, 4)
    assert (cross_fitted.score, cross_fitted.full_score) == pytest.approx((score, full))
    assert cross_fitted.drop == pytest.approx(full - score, abs=1e-4)
    assert cross_fitted.average_layers == pytest.approx(sum(depths.values()) / 200, abs=1e-4)
    # The threshold itself is that of all rows.
    whole = best_threshold(logits, layers=(1, 2, 3), kind=kind, max_drop=20.0, exit_costs=(0.1, 0.1), score=lambda each: accuracy(each, labels))  # fmt: skip
    assert found.calibration == whole


@pytest.mark.slow
def test_the_interval_is_of_rows_with_both_of_their_answers():
    """Of rows that leave and rows that do not, the share that is lost has the binomial's deviation."""
    logits, labels = rows(knows=(2.0, 2.5, 3.0), count=2000)
    cross_fitted = fit(logits, labels, max_drop=8.0).cross_fitted
    low, high = cross_fitted.drop_interval
    assert low < cross_fitted.drop < high
    # Were the two answers drawn apart, it would be wider than that of their difference: at most one in ten rows changes here.
    assert high - low < 2 * 1.96 * 100 * (0.1 / 2000) ** 0.5
    assert cross_fitted.drop_interval == fit(logits, labels, max_drop=8.0).cross_fitted.drop_interval


@pytest.mark.slow
def test_what_is_allowed_is_tightened_until_other_rows_hold():
    """Over many draws of noisy rows: what is chosen holds, and is the first that does."""
    allowances = set()
    for seed in range(12):
        logits, labels = rows(knows=(0.6, 1.2, 1.6), count=80, seed=seed)
        found = fit(logits, labels, max_drop=4.0)
        cross_fitted = found.cross_fitted
        *before, last = cross_fitted.tried
        assert [allowance for allowance, *_ in cross_fitted.tried] == [4.0, 2.0, 1.0, 0.0, -2.0, -4.0][
            : len(before) + 1
        ]
        assert cross_fitted.drop <= 4.0
        if cross_fitted.allowance is None:
            assert (len(before), found.calibration.best.average_layers) == (5, 3)
        else:
            assert all(drop > 4.0 or depth == 3 for _, drop, depth in before)
            assert found.calibration.best.average_layers < 3
            assert (cross_fitted.allowance, cross_fitted.drop, cross_fitted.average_layers) == tuple(last)
        allowances.add(cross_fitted.allowance)
    assert len(allowances) > 2


def test_where_nothing_holds_no_row_leaves():
    """Exits whose sureness says nothing seem to hold where a threshold is found, and do not elsewhere."""
    logits, labels = rows(knows=(0.0, 0.0, 3.0), count=60)
    found = fit(logits, labels, max_drop=0.0)
    best, cross_fitted = found.calibration.best, found.cross_fitted
    assert (best.criterion.threshold, best.average_layers, found.calibration.kept) == (0.0, 3, (0, 1))
    assert (cross_fitted.allowance, cross_fitted.drop, cross_fitted.average_layers) == (None, 0, 3)
    assert cross_fitted.drop_interval == [0, 0]


def test_a_fold_has_two_rows():
    logits, labels = rows(knows=(1.0, 2.0, 3.0), count=9)
    with pytest.raises(
        InvalidInput, match="--folds 5 need at least 10 rows .*, got 9; use fewer --folds, or more rows"
    ):
        fit(logits, labels, folds=5)
    assert fit(logits, labels, folds=4).cross_fitted.rows == 9
