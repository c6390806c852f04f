"""The plot of score against depth: of a record of today, and of one from before thresholds were cross-fitted."""

import pytest

from hf_albert_plus.eval.reporting.plots import depth_svg

FOUND = {"rows": 100, "score": 81.0, "full_score": 82.0, "average_layers": 1.5, "leave_at": {"1": 60, "3": 40}}
RECORD = {
    "threshold": 0.5,
    "layers": [1, 3],
    "curve": [[1.0, 1.0, 75.0], [0.5, 1.5, 81.0], [0.0, 3.0, 82.0]],
    "found_on": FOUND,
}
JUDGED = {
    "rows": 100,
    "score": 80.0,
    "full_score": 82.0,
    "average_layers": 1.6,
    "drop": 2.0,
    "folds": 5,
    "allowance": 1.0,
}


@pytest.mark.parametrize("interval", [[0.5, 3.5], None])
def test_todays_record_shows_other_rows(interval):
    svg = depth_svg({**RECORD, "cross_fitted": {**JUDGED, "drop_interval": interval}})
    assert ">on other rows</text>" in svg
    assert ">threshold 0.5</text>" in svg


def test_a_record_from_before_is_drawn():
    svg = depth_svg({**RECORD, "others": {**FOUND, "score": 72.0}})
    assert ">threshold 0.5</text>" in svg
    assert ">score on 100 rows</text>" in svg
    assert "on other rows" not in svg
