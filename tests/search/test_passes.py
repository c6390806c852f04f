"""How long candidates learn, by hand."""

from types import SimpleNamespace

import pytest

from hf_albert_plus.records.record import Record
from hf_albert_plus.search.paces import texts_of_a_pass
from hf_albert_plus.search.passes import Passes, fit_passes, seconds_of_a_pass, with_exits
from hf_albert_plus.search.settings import Budget, CompressSettings
from hf_albert_plus.search.stage import _budget
from hf_albert_plus.search.time_left import TimeLeft
from hf_albert_plus.tasks.glue import get_task

# A pass takes 10,000 rows x 2 ms x 3 = 60 s.
PACE = {"rows": 10_000, "answer_ms": 2.0}


def test_a_pass_takes_as_long_as_three_answers_to_each_row():
    assert seconds_of_a_pass(**PACE) == 60.0


@pytest.mark.parametrize(
    ("budget_s", "expected"),
    [(3600.0, 4.0), (1440.0, 4.0), (720.0, 2.0), (240.0, 0.8), (90.0, 0.75), (1e9, 4.0)],
)
def test_the_passes_of_a_candidate_take_a_sixth_of_the_time(budget_s, expected, tmp_path):
    """Of 240 s a sixth has room for 6,667 rows: it goes over 8,000. Of 90 s half has room for 7,500."""
    found = fit_passes(4.0, **PACE, budget_s=budget_s, home=tmp_path)
    assert (found.count, found.whole, found.seconds) == (expected, 4.0, 60.0)


def test_a_search_goes_on_with_the_passes_that_it_began_with(tmp_path, capsys):
    """With more time as with less; it says what a new one would have."""
    fit_passes(4.0, **PACE, budget_s=720.0, home=tmp_path)
    assert "candidates learn 2 of the 4 passes" in capsys.readouterr().err
    for budget_s in (360.0, 900.0):
        assert fit_passes(4.0, **PACE, budget_s=budget_s, home=tmp_path).count == 2.0
        assert "in another --out" not in capsys.readouterr().err
    assert fit_passes(4.0, **PACE, budget_s=3600.0, home=tmp_path).count == 2.0
    assert "in another --out they would learn 4" in capsys.readouterr().err
    # A pace that is measured anew changes nothing either.
    assert fit_passes(4.0, rows=10_000, answer_ms=9.0, budget_s=720.0, home=tmp_path).count == 2.0


def test_all_passes_that_have_room_are_nothing_to_speak_of(tmp_path, capsys):
    fit_passes(4.0, **PACE, budget_s=3600.0, home=tmp_path)
    assert capsys.readouterr().err == ""


def test_a_candidate_that_was_killed_is_no_faster():
    """One pass took 60 s. Three more were killed after two: 60 s are those of the last one. So four take 240 s."""

    def learned(epochs, *, seconds, steps, resumed):
        phases = {"task": {"steps": steps, "resumed_at_step": resumed}}
        return Record("distill", {"epochs": epochs}, {}, {"phases": phases}, {}, {}, "", "", seconds)

    records = [learned(1.0, seconds=60.0, steps=100, resumed=0), learned(3.0, seconds=60.0, steps=300, resumed=200)]
    shop = SimpleNamespace(records=records, passes=Passes(4.0, 4.0), spent_s=120.0)
    assert TimeLeft(shop, 1e3).learning_s(1.0) == pytest.approx(240.0)


@pytest.mark.parametrize(
    ("rows", "epochs", "budget_s", "expected"),
    [(10_000, 4.0, 3600.0, 2.0), (10_000, 1.0, 3600.0, 1.0), (80_000, 4.0, 1e9, 0.5), (10_000, 4.0, 240.0, 1.5)],
)
def test_exits_learn_a_pass_or_two_or_what_an_eighth_of_the_time_has_room_for(
    rows, epochs, budget_s, expected, tmp_path
):
    """A pass over 10,000 rows takes 20 s; an eighth of 240 s is 30 s."""
    pace = {"rows": rows, "answer_ms": 2.0, "epochs": epochs}
    found = with_exits(Passes(4.0, 4.0), **pace, budget_s=budget_s, home=tmp_path)
    assert found.exits == expected
    assert found.exits_s == pytest.approx(expected * rows * 2e-3)
    # A search that goes on with more time has those that it began with, beside the passes of its candidates.
    fit_passes(4.0, **PACE, budget_s=720.0, home=tmp_path)
    assert with_exits(Passes(4.0, 4.0), **pace, budget_s=1e9, home=tmp_path).exits == expected
    assert fit_passes(4.0, **PACE, budget_s=3600.0, home=tmp_path).count == 2.0


@pytest.mark.parametrize(("text_ms", "expected"), [(1.0, 192), (30.0, 192), (100.0, 60), (500.0, 32)])
def test_a_pass_over_long_texts_is_over_fewer(text_ms, expected):
    assert texts_of_a_pass(text_ms, seconds=6.0, fewest=32, most=192) == expected


@pytest.mark.parametrize(
    ("asked", "measure", "expected"),
    [
        ({}, "rmse", Budget(max_drop=0.041, error="rmse")),
        ({}, "pearson", Budget(max_drop=1.0)),
        ({"max_drop": 2.0}, "rmse", Budget(max_drop=2.0, error="rmse")),
        ({"min_speedup": 5.0}, "rmse", Budget(min_speedup=5.0, error="rmse")),
    ],
)
def test_of_an_error_a_twentieth_may_be_lost_where_nothing_is_said(asked, measure, expected):
    """0.05 x 0.82 = 0.041."""
    task = get_task("stsb").measured_by(measure)
    assert _budget(CompressSettings(**asked), 0.82, task) == expected
