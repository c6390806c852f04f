"""Ten thousand requests at a real server, most of them hostile: none of them is another's harm."""

import pytest

from tests.support.hostile import attack

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
def test_hostile_requests_harm_nobody(exported_dir):
    report, log = attack(exported_dir, requests=10_000, seed=0)
    print("\n".join(report.lines()))
    print(f"the slowest took {report.slowest_s:.1f} s")
    assert report.wrong == []
    assert "Traceback" not in log
    good = sum(count for (kind, _), count in report.counts.items() if kind.startswith("good"))
    assert good >= 10_000 / 3
    assert sum(report.counts.values()) == 10_000
