"""Shapes that learn once more where a search has time left, on candidates whose losses, speeds and times are planted."""

import pytest

from tests.support.planted_search import MADE, TRAINED


def rounds(found):
    return {name: shape.rounds for name, (shape, _) in found.workshop.taught.items() if not name.endswith("-begun")}


@pytest.mark.slow
def test_what_came_nearest_learns_again_until_it_holds(hunt):
    """Each round gives back a quarter of a point: what was too fast for one round holds after some, and the search goes down from there."""
    given = {"max_drop": 1.0, "exits": False}
    once, more = hunt(**given), hunt(**given, again=0.25)
    assert more.leader().speedup > 1.1 * once.leader().speedup
    learned = rounds(more)
    assert max(learned.values()) >= 2
    (leader, _) = more.workshop.taught[more.leader().name]
    name = next(name for name, count in learned.items() if count == 2 and more.holds(name))
    (shape, directory) = more.workshop.taught[name]
    assert shape.base in learned
    assert (shape.layers, shape.width) == (lambda base: (base.layers, base.width))(more.workshop.taught[shape.base][0])
    assert not more.holds(shape.base)
    assert "learned again" in next(each.words for each in more.tried if each.name == name)
    assert directory == more.workshop.out / name / "taught"
    # Nothing is proposed that lost before and holds now.
    assert leader.width <= shape.width


@pytest.mark.slow
def test_what_gains_nothing_by_it_learns_again_once(hunt):
    found = hunt(max_drop=1.0, exits=False)
    again = [name for name, count in rounds(found).items() if count > 1]
    assert len(again) <= 1
    assert max(rounds(found).values()) <= 2


@pytest.mark.slow
def test_it_needs_time_for_a_whole_round(hunt):
    """What has no time to finish its round does not begin it."""
    given = {"max_drop": 1.0, "exits": False, "again": 0.25}
    whole = hunt(**given)
    names = [each.name for each in whole.tried]
    first = next(place for place, name in enumerate(names) if "-again" in name)
    before = hunt(**given, time_budget=whole.workshop.spent_s)
    assert [each.name for each in before.tried][: first + 1] == names[: first + 1]
    spent = _spent_before_again(whole)
    short = hunt(**given, time_budget=spent + TRAINED)
    assert not any("-again" in each.name for each in short.tried)
    enough = hunt(**given, time_budget=spent + TRAINED + 10 * MADE)
    assert any("-again" in each.name for each in enough.tried)
    assert enough.workshop.spent_s <= spent + TRAINED + 10 * MADE


def _spent_before_again(found):
    """Seconds until the first round of a shape that learns again."""
    spent = 0.0
    for directory, record in found.workshop.done.items():
        if any("-again" in part for part in directory.parts):
            return spent
        spent += record.seconds
    raise AssertionError


@pytest.mark.slow
def test_another_budget_takes_up_what_learned_again(hunt):
    """Also where the round before, which is a little faster by chance, lost too much."""
    first = hunt(max_drop=1.0, exits=False, again=0.25)
    shapes = {each.name for each in first.finished if "-again" in each.name}
    assert shapes
    second = hunt(max_drop=1.2, exits=False, again=0.25, done=first.workshop.done, time_budget=3 * TRAINED)
    assert shapes <= {each.name for each in second.finished}
    assert second.leader().speedup >= first.leader().speedup


@pytest.mark.slow
def test_another_budget_takes_up_exits_before_it_teaches_anything(hunt):
    """They were made for the first budget, and cost what finds a threshold and measures it: with time for that alone the second search has them."""
    first = hunt(max_drop=1.0)
    shape = next(
        each.name.partition("-exits")[0] for each in first.tried if "-exits" in each.name and each.name[0] == "l"
    )
    second = hunt(max_drop=3.0, done=first.workshop.done, time_budget=40 * MADE)
    of_shape = [each.name for each in second.tried if each.name.startswith(f"{shape}-exits")]
    assert of_shape
    assert max(each.speedup for each in second.finished) >= max(each.speedup for each in first.finished)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"min_speedup": 60.0}, {"max_latency": 0.08, "traffic": "alone"}])
def test_without_a_limit_of_what_is_lost_the_leader_learns_again_while_it_gains(asked, hunt):
    once, more = hunt(**asked, exits=False), hunt(**asked, exits=False, again=0.3)
    assert max(rounds(once).values()) <= 2
    assert max(rounds(more).values()) > 2
    lost = {each.name: more.losses[each.name].rank for each in more.finished}
    assert lost[more.leader().name] < min(lost[name] for name, count in rounds(more).items() if count == 1)


@pytest.mark.slow
def test_exits_that_another_budget_made_cost_nothing_while_they_are_taken_up(hunt, monkeypatch):
    """Long ones do not end the search before it has begun."""
    first = hunt(max_drop=1.0)
    for directory, record in first.workshop.done.items():
        if directory.name == "exits":
            record.seconds = 1e6
    second = hunt(max_drop=1.2, done=first.workshop.done, time_budget=1.2e6)
    shapes = {each.name for each in second.tried if "-exits" in each.name and each.name.startswith("layers")}
    assert shapes
    assert second.workshop.spent_s < 1.1e6


@pytest.mark.slow
def test_a_search_that_took_something_up_makes_the_same_when_it_goes_on(hunt):
    """What it was cut from had learned its first passes alone when it was taken up, and all of them in the end."""
    done = hunt(max_drop=3.0, exits=False).workshop.done
    once = hunt(max_drop=0.85, exits=False, done=done)
    made = set(done)
    again = hunt(max_drop=0.85, exits=False, done=done)
    assert [each.name for each in again.tried] == [each.name for each in once.tried]
    assert set(done) == made


@pytest.mark.slow
def test_what_is_a_little_slower_than_it_was_aimed_at_learns_again_if_it_is_as_fast_as_asked(hunt):
    found = hunt(max_drop=0.6, min_speedup=50.0, exits=False, again=0.25)
    assert max(rounds(found).values()) > 1


@pytest.mark.slow
def test_a_smaller_file_takes_up_nothing_that_is_too_large(hunt):
    first = hunt(max_drop=3.0, max_size=12e6, exits=False)
    alone = max(each.file_bytes for each in first.finished if each.name.startswith("layers"))
    second = hunt(max_drop=3.0, max_size=4e6, exits=False, done=first.workshop.done)
    sizes = [each.file_bytes for each in second.finished if each.name.startswith("layers")]
    assert alone > 4e6
    assert sizes
    assert max(sizes) <= 4e6
