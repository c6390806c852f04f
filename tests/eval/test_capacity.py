"""The capacity model against numbers worked by hand."""

import json

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load.capacity import Capacity, Measured, read_measured
from tests.support.command_line import invoke

# 5 ms of a core, 50 ms, and 25 ms where a line between them has 23.
POINTS = [Measured(51, 2, 40, 30.0, 90.0), Measured(1, 2, 400, 4.0, 9.0), Measured(21, 2, 80, 15.0, 50.0)]


def test_requests_cost_what_lies_between_those_measured():
    found = Capacity([POINTS[0], POINTS[1]])
    assert found.core_s(11) == pytest.approx(14e-3)
    assert found.requests_per_s(11) == pytest.approx(2 / 14e-3)
    assert (found.alone_ms(26), found.half_p99_ms(26)) == (17.0, 49.5)
    # Half of 142.9 requests a second, and 490 are 6.9 times as many.
    assert found.servers(rate=490, texts=11) == 7
    assert found.servers(rate=200, texts=1) == 1
    assert found.servers(rate=201, texts=1) == 2


def test_a_size_in_the_middle_checks_the_others():
    ((point, said),) = Capacity(POINTS).checks()
    assert (point.texts, point.requests_per_s) == (21, 80)
    assert said == pytest.approx(2 / 23e-3)
    assert Capacity(POINTS[:2]).checks() == []


def test_what_was_not_measured_is_not_planned(tmp_path):
    with pytest.raises(InvalidInput, match=r"measured 1, 21, 51.*--texts 64"):
        Capacity(POINTS).core_s(64)
    with pytest.raises(InvalidInput, match="2 and 4 cores"):
        Capacity([POINTS[0], Measured(8, 4, 1, 1.0, 1.0)])
    with pytest.raises(InvalidInput, match="no cores"):
        Capacity([])
    (tmp_path / "latency.json").write_text('{"kind": "latency"}')
    with pytest.raises(InvalidInput, match="'latency'"):
        read_measured(tmp_path / "latency.json")


def test_a_plan_is_made_of_what_a_bench_wrote(tmp_path):
    for texts, pace in ((1, 400.0), (51, 2040.0)):
        document = {
            "kind": "served", "texts_a_request": texts, "environment": {"cores": 2},
            "throughput": {"served": {"items_per_s": pace}}, "one_at_a_time": {"p50_ms": 4.0}, "half_pace": {"p99_ms": 9.0},
        }  # fmt: skip
        (tmp_path / f"{texts}.json").write_text(json.dumps(document))
    files = [str(tmp_path / f"{texts}.json") for texts in (1, 51)]
    done = invoke("capacity", *files, "--rate", "490", "--texts", "11", "--json")
    assert json.loads(done.stdout)["servers"] == 7
    assert "servers" in invoke("capacity", *files).stdout
