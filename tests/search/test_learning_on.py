"""The shape that learns on in the last third of a search, on candidates whose losses, speeds and times are planted."""

import math

import pytest

from hf_albert_plus.search.learning_on import Unripe, next_to_learn_on
from hf_albert_plus.search.shapes import Slimmed
from tests.support.planted_search import LATE, MADE, TRAINED

# A candidate learns four of the forty passes that the task takes.
CUT_SHORT = {"max_drop": 1.0, "exits": False, "whole_passes": 40.0}


def learned_on(found):
    return [each for each in found.tried if "-longer" in each.name]


@pytest.mark.parametrize("exits", [True, False])
def test_what_wins_back_enough_becomes_the_pick(exits, hunt):
    """Three points too many after four passes, and none of them after those that a third of the time has room for; it gets exits then."""
    budget, given = 12 * TRAINED, {**CUT_SHORT, "exits": exits}
    without = hunt(**given, time_budget=budget)
    found = hunt(**given, longer=3.0, time_budget=budget)
    (tried, *_) = learned_on(found)
    assert found.holds(tried.name)
    assert found.leader().name.partition("-exits")[:2] == (tried.name, "-exits" * exits)
    assert found.leader().speedup > 1.1 * without.leader().speedup
    assert found.workshop.spent_s <= budget
    assert "passes more" in tried.words
    # It went on from the last that its shape had learned, for more passes than the others had.
    record = found.workshop.done[found.workshop.out / tried.name / "taught"]
    assert record.settings["epochs"] > 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"whole_passes": 4.0},  # candidates learn as much as the task takes
        {"whole_passes": 5.0},  # nearly
        {"max_drop": None, "min_speedup": 30.0},  # the leader learns again there
    ],
)
def test_where_no_time_is_kept_nothing_learns_on(given, hunt):
    found = hunt(**{**CUT_SHORT, **given}, longer=3.0, time_budget=12 * TRAINED)
    assert not learned_on(found)


def test_a_third_of_the_time_is_kept(hunt):
    """What comes before takes no more than two thirds of it, and a shape that has too little to win learns on all the same."""
    budget = 15 * TRAINED
    found = hunt(**CUT_SHORT, longer=0.0, time_budget=budget)
    (first, *_) = learned_on(found)
    spent = 0.0
    for directory, record in found.workshop.done.items():
        if first.name in directory.parts:
            break
        spent += record.seconds
    assert spent <= 2 / 3 * budget + 4 * MADE  # what was finished when it ended is measured then
    assert found.workshop.spent_s > 0.85 * budget


def test_the_fastest_that_is_expected_to_hold_learns_on_or_what_is_expected_to_lose_least(hunt, monkeypatch):
    found = hunt(**CUT_SHORT, time_budget=12 * TRAINED)
    found.gains[:] = [0.5, 1.5]

    def unripe(layers, at_most, ms):
        return Unripe(Slimmed(layers, 0.5), found.workshop.out, ms=ms, at_most=at_most, learned=4.0)

    # Four times as long wins back a point: what loses two at most is expected to lose one.
    known = [unripe(6, 1.5, 0.5), unripe(4, 2.0, 0.3), unripe(3, 2.1, 0.2), unripe(2, math.inf, 0.1)]
    monkeypatch.setattr("hf_albert_plus.search.learning_on._unripe", lambda learning: known)
    monkeypatch.setattr("hf_albert_plus.search.learning_on._more", lambda unripe, learning: 12.0)
    assert next_to_learn_on(found) == (known[1], 12.0)
    found.gains[:] = [0.0, -2.0]
    assert next_to_learn_on(found) == (known[0], 12.0)
    monkeypatch.setattr("hf_albert_plus.search.learning_on._more", lambda unripe, learning: 1.9)
    assert next_to_learn_on(found) is None


def test_what_is_expected_follows_the_passes_that_it_learned_as_four_times_as_many_win_back_the_gain():
    unripe = Unripe(Slimmed(4, 0.5), None, ms=1.0, at_most=5.0, learned=1.0)
    assert unripe.expected(3.0, gain=2.0) == pytest.approx(3.0)
    assert unripe.expected(15.0, gain=2.0) == pytest.approx(1.0)


def test_where_all_shapes_hold_no_time_is_kept(hunt):
    """Nothing may learn on, so the plan has all of the time."""
    budget = 5 * TRAINED
    found = hunt(**{**CUT_SHORT, "max_drop": 100.0}, time_budget=budget)
    assert not learned_on(found)
    assert found.workshop.spent_s > 0.8 * budget or found.ended != "the time was spent"


@pytest.mark.slow
def test_what_could_not_be_exported_does_not_learn_on(hunt):
    """A shape that was finished and lost too much would; one whose export failed would fail again."""
    given = {**CUT_SHORT, "longer": 3.0, "time_budget": 16 * TRAINED}
    whole = hunt(**given)
    name = next(each.name for each in whole.shapes() if each.name in whole.begun and not whole.holds(each.name))
    found = hunt(**given, broken=name)
    assert "says something else" in next(each.why for each in found.tried if each.name == name)
    assert not any(each.name.startswith(f"{name}-longer") for each in found.tried)


@pytest.mark.slow
@pytest.mark.parametrize("exits", [True, False])
def test_the_same_search_finds_what_learned_on_and_a_longer_one_has_it_too(exits, hunt):
    """With its exits, which take time too."""
    budget, given = 12 * TRAINED, {**CUT_SHORT, "exits": exits}
    first = hunt(**given, longer=3.0, time_budget=budget)
    made, names = set(first.workshop.done), [each.name for each in first.tried]
    again = hunt(**given, longer=3.0, time_budget=budget, done=first.workshop.done)
    assert [each.name for each in again.tried] == names
    assert set(again.workshop.done) == made
    assert again.workshop.spent_s == pytest.approx(first.workshop.spent_s)
    more = hunt(**given, longer=3.0, time_budget=2 * budget, done=first.workshop.done)
    assert {each.name for each in learned_on(first)} <= {each.name for each in more.tried}
    assert more.leader().speedup >= first.leader().speedup
    assert more.workshop.spent_s <= 2 * budget


@pytest.mark.parametrize("asked", [{"max_drop": 2.0}, {"max_drop": None, "min_speedup": 20.0}])
def test_another_budget_has_what_learned_on_for_nothing(asked, hunt):
    first = hunt(**CUT_SHORT, longer=3.0, time_budget=12 * TRAINED)
    other = hunt(**{**CUT_SHORT, **asked}, longer=3.0, time_budget=TRAINED, done=first.workshop.done)
    assert {each.name for each in learned_on(first)} <= {each.name for each in other.finished}
    assert other.workshop.spent_s <= TRAINED


@pytest.mark.slow
@pytest.mark.parametrize("first", [LATE, 0.4])
@pytest.mark.parametrize("exits", [True, False])
def test_a_search_with_hardly_any_time_takes_up_what_is_there(exits, first, hunt):
    """The pick is that of the longer search, whether its shapes held after their first passes or not; for another budget at least its shapes are there."""
    given = {"exits": exits, "first": first}
    whole = hunt(max_drop=1.0, **given)
    for seconds in (2 * MADE, 2 * TRAINED):
        short = hunt(max_drop=1.0, **given, time_budget=seconds, done=whole.workshop.done)
        assert short.leader().name == whole.leader().name
    other = hunt(max_drop=1.2, **given, time_budget=4 * MADE, done=whole.workshop.done)
    assert other.leader().speedup >= whole.of_holding()[0].speedup
    assert other.workshop.spent_s <= 8 * MADE


@pytest.mark.slow
def test_without_exits_those_of_another_search_are_not_taken_up(hunt):
    whole = hunt(max_drop=1.0)
    assert any("-exits" in each.name for each in whole.tried)
    short = hunt(max_drop=1.0, exits=False, time_budget=2 * MADE, done=whole.workshop.done)
    assert not any("-exits" in each.name for each in short.tried)
    assert len(short.finished) > 1
