"""The capacity model: its queue against a simulated one, its costs against numbers worked by hand."""

import numpy
import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.capacity import Measured, fit, read_measured, wait_quantile


def simulated_waits(*, load, requests=4_000_000):
    """Waits in service times of one server, by Lindley's recursion."""
    draw = numpy.random.default_rng(0)
    gaps = draw.exponential(1 / load, size=requests)
    # W(n + 1) = max(0, W(n) + 1 - gap): the walk above its lowest point so far.
    walk = numpy.concatenate([[0.0], numpy.cumsum(1 - gaps)])
    return walk - numpy.minimum.accumulate(walk)


@pytest.mark.parametrize(
    ("load", "share"), [(0.3, 0.99), (0.5, 0.95), (0.5, 0.99), (0.7, 0.95), (0.7, 0.99), (0.9, 0.95), (0.9, 0.99)]
)
def test_waits_are_those_of_a_simulated_queue(load, share):
    expected = numpy.quantile(simulated_waits(load=load), share)
    assert wait_quantile(share, load=load, service_s=1.0) == pytest.approx(expected, rel=0.05, abs=0.05)
    assert wait_quantile(share, load=load, service_s=0.02) == pytest.approx(0.02 * expected, rel=0.05, abs=0.001)


def test_two_sizes_give_what_a_request_and_a_text_cost():
    # 2 cores at 400 requests/s: 5 ms each; with 51 texts at 40/s: 50 ms. So a text costs 45/50 ms, a request 4.1 ms.
    found = fit([Measured(51, 2, 40, 30.0, 90.0), Measured(1, 2, 400, 4.0, 9.0)])
    assert found.text_s == pytest.approx(0.9e-3)
    assert found.request_s == pytest.approx(4.1e-3)
    assert found.requests_per_s(texts=11, cores=4) == pytest.approx(4 / 14e-3)
    # Half of 4 / 14 ms is 142.9 requests a second, and 990 are 6.9 times as many.
    assert found.machines(rate=990, texts=11, cores=4, load=0.5) == 7
    # 4 + (30 - 4) * 10 / 50 ms alone, and the wait at half load with 3.5 ms a request.
    wait = 1e3 * wait_quantile(0.99, load=0.5, service_s=3.5e-3)
    assert found.p99_ms(texts=11, cores=4, load=0.5) == pytest.approx(9.2 + wait)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([Measured(8, 2, 10, 1.0, 1.0)], "two sizes"),
        ([Measured(1, 2, 10, 1.0, 1.0), Measured(8, 2, 10, 1.0, 1.0)], "must take more time"),
        ([Measured(1, 2, 100, 1.0, 1.0), Measured(2, 2, 10, 1.0, 1.0)], "less for each text"),
    ],
)
def test_measurements_that_cannot_be(points, message):
    with pytest.raises(InvalidInput, match=message):
        fit(points)


def test_other_documents_and_loads_are_refused():
    with pytest.raises(InvalidInput, match="'latency'"):
        read_measured({"kind": "latency"}, name="latency.json")
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        wait_quantile(0.99, load=1.0, service_s=1.0)
