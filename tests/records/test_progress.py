"""Bars are drawn often on a screen and seldom in a log, where every drawing stays."""

import sys

import pytest

from hf_albert_plus.records.progress import bar


@pytest.mark.parametrize(("on_screen", "most"), [(True, 51), (False, 2)])
def test_a_log_has_few_drawings(on_screen, most, capsys, monkeypatch):
    clock = iter(range(10**6))
    # Every look at the clock is a tenth of a second after the last.
    monkeypatch.setattr("tqdm.std.time", lambda: next(clock) / 10)
    if on_screen:
        monkeypatch.setattr(type(sys.stderr), "isatty", lambda self: True)
    with bar(total=50, description="rows") as progress:
        for _ in range(50):
            progress.update()
    drawn = capsys.readouterr().err.count("rows ")
    assert drawn <= most
    assert drawn > 10 if on_screen else drawn >= 1
