"""The order of a search, on candidates whose losses, speeds and times are planted: nothing is trained."""

from types import SimpleNamespace

import pytest

from hf_albert_plus.search.frontier import notes
from hf_albert_plus.search.pick import affords
from tests.support.planted_search import LATE, LAYERS, MADE, TRAINED, PlantedShop, relative_time


def picked(hunt):
    return hunt.judge.choose(hunt.finished, hunt.budget).name


def compared_shapes(hunt):
    """The names of the shapes that began together, speed by speed."""
    at_speed = {}
    for begun in hunt.begun.values():
        at_speed.setdefault(begun.ms, []).append(begun.shape.name)
    return list(at_speed.values())


@pytest.mark.slow
def test_exits_are_tried_on_every_shape_that_holds_at_once(hunt):
    """They are worth it on the teacher, so the fastest shape leaves early as soon as it holds, and the pick is such a one."""
    found = hunt(max_drop=1.0, first=LATE)
    names = [each.name for each in found.tried]
    first = next(name for name in names if name.startswith("layers") and found.losses.get(name) and found.holds(name))
    after = names[names.index(first) + 1]
    assert after.startswith(f"{first}-exits")
    assert "-exits" in picked(found)


@pytest.mark.slow
def test_exits_that_gain_nothing_on_the_teacher_are_not_tried_on_its_shapes(hunt):
    found = hunt(max_drop=1.0, exits_gain=1.05)
    assert {each.name.split("-exits")[0] for each in found.tried if "-exits" in each.name} == {"teacher"}
    pick = found.judge.choose(found.finished, found.budget)
    assert any(note.startswith("No shape has exits") for note in notes(found, pick))
    found = hunt(max_drop=1.0)
    assert not any("exits" in note for note in notes(found, found.judge.choose(found.finished, found.budget)))


@pytest.mark.slow
def test_what_exits_on_a_shape_may_lose_is_what_the_shape_has_left(hunt):
    """A shape that lost 0.6 of one point may lose 0.4 more by leaving early, or half of that, and not the whole of the budget."""
    first = hunt(max_drop=1.0, exits_gain=1.0, first=LATE)
    (shape, _) = next(iter(first.workshop.taught.values()))
    found = hunt(max_drop=1.0, lost={shape.name: 0.6}, first=LATE)
    tried = [each.name for each in found.tried if each.name.startswith(f"{shape.name}-exits")]
    assert tried[0] == f"{shape.name}-exits-0.4"
    free = hunt(max_drop=1.0, lost={shape.name: 0.0}, first=LATE)
    tried = [each.name for each in free.tried if each.name.startswith(f"{shape.name}-exits")]
    assert tried[0] == f"{shape.name}-exits-1"


@pytest.mark.slow
def test_between_a_threshold_that_loses_too_much_and_one_that_holds_another_is_tried(hunt):
    """A planted threshold loses 0.8 of what it may: the three points that the whole teacher may lose hold, and neither six nor what is between; of the 1.2
    that its first shape may lose here, beside 1.8 of its own, none but the last."""
    first = hunt(max_drop=3.0, exits_gain=1.0, first=LATE)
    (shape, _) = next(iter(first.workshop.taught.values()))
    found = hunt(max_drop=3.0, lost={shape.name: 1.8}, first=LATE)
    of_shape = [each.name.partition("-exits")[2] for each in found.tried if each.name.startswith(f"{shape.name}-exits")]
    held = [found.holds(f"{shape.name}-exits{ending}") for ending in of_shape]
    assert (of_shape, held) == (["-1.2", "-0.6", "-0.9"], [False, True, True])
    of_teacher = [each.name for each in found.tried if each.name.startswith("teacher-exits")]
    assert [name for name in of_teacher if found.holds(name)] == ["teacher-exits-3"]
    assert of_teacher == ["teacher-exits-3", "teacher-exits-6", "teacher-exits-4.5"]


def test_thresholds_that_lose_less_than_they_may_are_followed_by_those_that_may_lose_twice_as_much(hunt):
    """On rows that the teacher has not learned: a quarter of what is lost where thresholds are found."""
    found = hunt(max_drop=3.0, exits_lose=0.25)
    of_teacher = [each.name.partition("-exits-")[2] for each in found.tried if each.name.startswith("teacher-exits")]
    assert of_teacher == ["3", "6", "12", "9"]
    assert [found.holds(f"teacher-exits-{each}") for each in of_teacher] == [True, True, False, True]
    # Where what may lose twice as much has the same threshold, it holds as that one did.
    coarse = hunt(max_drop=3.0, exits_lose=0.25, least_threshold=6.0)
    of_teacher = [each.name.partition("-exits-")[2] for each in coarse.tried if each.name.startswith("teacher-exits")]
    assert of_teacher == ["3", "12", "9"]
    unbounded = hunt(max_drop=100.0, exits_lose=0.1)
    assert [each.name for each in unbounded.tried if each.name.startswith("teacher-exits")] == ["teacher-exits-100"]


@pytest.mark.slow
def test_what_has_only_begun_is_measured_when_the_time_ends(hunt):
    """The first shape holds after its first passes, and there is no time for the others: it is a candidate as it is."""
    given = {"max_drop": 3.0, "exits": False}
    ((first,), *_) = compared_shapes(hunt(**given))
    began = hunt(time_budget=230.0, **given)
    assert [each.name for each in began.tried] == ["teacher", f"{first}-begun"]
    assert picked(began) == f"{first}-begun"
    assert began.ended == "the time was spent"
    assert began.workshop.spent_s <= 230.0
    # Where there is no time to measure it either, it is left out; with more time it learns on.
    assert [each.name for each in hunt(time_budget=210.0, **given).tried] == ["teacher"]
    on = hunt(time_budget=600.0, done=began.workshop.done, **given)
    assert first in [each.name for each in on.tried]
    assert f"{first}-begun" not in [each.name for each in on.tried]


@pytest.mark.slow
def test_no_more_depths_begin_than_leave_time_for_one_to_learn_the_rest(hunt):
    """Shapes of three depths are compared at the second speed. Where the time has room for one of them and its rest, one begins and is finished;
    a quarter more has room for two."""
    whole = hunt(max_drop=3.0, exits=False, first=LATE)
    (first,), compared = compared_shapes(whole)[:2]
    assert len(compared) > 1
    untrained = [
        each
        for each in whole.workshop.done
        if each.parent.name == "teacher" or each.name == "teacher-scores" or "shapes" in each.parts
    ]
    # The teacher and two shapes; the first candidate with its scores twice, export and paces; and as much for the next.
    before = MADE * len(untrained) + TRAINED + 4 * MADE
    for more, count in ((TRAINED + 4 * MADE, 1), (1.3 * TRAINED + 5 * MADE, 2)):
        found = hunt(max_drop=3.0, exits=False, first=LATE, time_budget=before + more)
        names = [each.shape.name for each in found.begun.values()]
        assert names == [first, *compared[:count]]
        assert next(iter(found.workshop.taught)) == first
        assert len(found.workshop.taught) == 2


@pytest.mark.slow
def test_what_was_taught_with_less_time_stays_a_candidate_where_another_depth_wins(hunt):
    """The depth that had no time to begin comes nearer to the teacher; the shape that learned in its place is not forgotten."""
    given = {"max_drop": 3.0, "exits": False, "first": LATE}
    (first,), (deepest, *others) = compared_shapes(hunt(**given))[:2]
    lost = {deepest: 0.5, others[0]: 0.0}
    short = hunt(**given, lost=lost, time_budget=MADE * 15 + 2 * TRAINED + 4 * MADE)
    assert list(short.workshop.taught) == [first, deepest]
    more = hunt(**given, lost=lost, done=short.workshop.done)
    names = [each.name for each in more.finished]
    assert {first, deepest, others[0]} <= set(names)


def test_before_anything_was_made_its_time_is_expected_by_the_teachers_pace(hunt):
    """No candidate begins whose first quarter alone would take longer than there is."""
    found = hunt(max_drop=1.0, exits=False, time_budget=TRAINED / 4 + 5 * MADE)
    assert found.begun == {}
    assert found.ended == "the time was spent"
    assert found.workshop.spent_s < TRAINED / 4


@pytest.mark.slow
def test_the_frontier_so_far_is_shown_whenever_a_candidate_is_finished(hunt):
    seen = []

    def show(search):
        assert search.ended == ""
        leader = search.leader()
        seen.append((len(search.finished), None if leader is None else leader.name))

    found = hunt(max_drop=1.0, show=show)
    assert [count for count, _ in seen] == list(range(1, len(found.finished) + 1))
    assert seen[0][1] == "teacher"
    assert seen[-1][1] == picked(found)


@pytest.mark.slow
def test_nothing_faster_is_proposed_than_a_shape_that_lost_too_much(hunt):
    """Whatever the sampler says; and nothing that is not a tenth faster than what holds."""
    found = hunt(max_drop=1.0, exits=False)
    held = max(each.speedup for each in found.of_holding())
    failed = min(each.speedup for each in found.shapes() if each.speedup > held)
    slowest, fastest = 0.9 * found.clock.ms_of(held), found.clock.ms_of(failed)
    found.log.decline = lambda why: None
    for said, expected in ((0.001, min(fastest, slowest)), (1e9, slowest)):
        found.log.propose = lambda ms=said: SimpleNamespace(layers=LAYERS, ms=ms)
        assert found._propose().ms == pytest.approx(expected)


@pytest.mark.slow
def test_the_rest_waits_where_a_shape_holds_after_its_first_passes(hunt, monkeypatch):
    """Ever faster shapes are tried, and the one that leads when none holds any more learns the rest and takes the place of what it was. No
    proposal is needed."""
    monkeypatch.setattr("hf_albert_plus.search.hunt._IDLE", 0)
    given = {"max_drop": 3.0, "exits": False}
    found, late = hunt(**given, first=0.0), hunt(**given, first=LATE)
    names = [each.name for each in found.finished]
    held = [name for name in names if name.endswith("-begun")]
    assert len(held) > 1
    pick = picked(found)
    assert found.workshop.was_taught(pick)
    assert f"{pick}-begun" in found.workshop.taught
    assert f"{pick}-begun" not in names
    speeds = {each.name: each.speedup for each in found.finished}
    assert speeds[pick] >= max(speeds[name] for name in held)
    assert picked(late).split("-")[0] == pick.split("-")[0]
    taught = [sum(path.name == "taught" for path in each.workshop.done) for each in (found, late)]
    assert taught[0] < taught[1]
    # Stopped and called again, it makes nothing anew and nothing else.
    made = set(found.workshop.done)
    again = hunt(**given, first=0.0, done=found.workshop.done)
    assert [each.name for each in again.finished] == names
    assert set(again.workshop.done) == made


@pytest.mark.slow
@pytest.mark.parametrize("budget", range(400, 1600, 150))
def test_there_is_time_left_for_the_rest_of_what_leads(budget, hunt):
    """Where it waits: no other shape begins that would take it."""
    found = hunt(max_drop=3.0, exits=False, time_budget=float(budget))
    assert found.workshop.spent_s <= budget
    leader = found.leader()
    if leader.name != "teacher" and budget >= 600:
        assert not leader.name.endswith("-begun")


@pytest.mark.slow
def test_exits_come_after_the_rest(hunt):
    found = hunt(max_drop=3.0)
    assert any(each.name.endswith("-begun") for each in found.finished)
    with_exits = {each.name.partition("-exits")[0] for each in found.tried if "-exits" in each.name}
    assert len(with_exits) > 1
    assert not any(name.endswith("-begun") for name in with_exits)


@pytest.mark.slow
def test_another_budget_takes_up_what_has_only_begun_as_it_is(hunt):
    """The rest of its passes would take time that nobody asked about."""
    first = hunt(max_drop=3.0, exits=False)
    waiting = {each.name for each in first.finished if each.name.endswith("-begun")}
    second = hunt(max_drop=2.0, exits=False, done=first.workshop.done, time_budget=TRAINED)
    assert waiting <= {each.name for each in second.finished}
    assert second.workshop.spent_s <= TRAINED


@pytest.mark.slow
def test_another_budget_takes_up_what_was_cut_from_what_had_only_begun(hunt, monkeypatch):
    """The base learned the rest at the end of the first search: what was cut from it before is known all the same."""
    monkeypatch.setattr(PlantedShop, "points", lambda shop, shape: 0.2 if relative_time(shape) > 0.13 else 5.0)
    first = hunt(max_drop=0.9, exits=False)
    taught = {name: shape.base for name, (shape, _) in first.workshop.taught.items() if not name.endswith("-begun")}
    assert any(base and base.removesuffix("-begun") in taught for base in taught.values())
    second = hunt(max_drop=1.0, exits=False, done=first.workshop.done)
    assert set(taught) <= {each.name for each in second.finished}


def test_exits_without_time_for_them_end_no_search(hunt, capsys, monkeypatch):
    monkeypatch.setattr("hf_albert_plus.search.time_left.TimeLeft.exits_s", lambda time: 1e6)
    found = hunt(max_drop=1.0, time_budget=3 * TRAINED)
    assert "exits are not tried: there is no time for them" in capsys.readouterr().err
    assert found.shapes()


@pytest.mark.slow
def test_what_has_begun_and_loses_too_much_is_no_candidate(hunt):
    ((first,), *_) = compared_shapes(hunt(max_drop=3.0, exits=False))
    found = hunt(time_budget=230.0, max_drop=3.0, exits=False, lost={first: 2.9})
    assert [each.name for each in found.tried] == ["teacher"]


@pytest.mark.slow
def test_another_budget_begins_with_the_shapes_of_the_first(hunt):
    """They cost nothing of its time, and it descends from the fastest of them that holds."""
    first = hunt(max_drop=1.0, exits=False)
    shapes = {each.name for each in first.finished if each.name != "teacher"}
    second = hunt(max_drop=3.0, exits=False, done=first.workshop.done, time_budget=3 * TRAINED)
    names = [each.name for each in second.tried]
    assert set(names[1 : 1 + len(shapes)]) == shapes
    assert second.workshop.spent_s <= 3 * TRAINED
    held = max(each.speedup for each in first.finished if first.holds(each.name))
    new = [each.speedup for each in second.finished if each.name not in shapes and each.name != "teacher"]
    assert new
    assert min(new) > held
    # The same call again counts what it made itself, and takes up the rest for nothing.
    again = hunt(max_drop=3.0, exits=False, done=second.workshop.done, time_budget=3 * TRAINED)
    assert [each.name for each in again.tried] == names
    assert again.workshop.spent_s == pytest.approx(second.workshop.spent_s)


@pytest.mark.slow
def test_a_student_that_is_given_is_a_candidate_and_nothing_is_cut_from_it(hunt):
    found = hunt(max_drop=1.0, student=("somewhere/general",))
    name = next(each.name for each in found.tried if each.name.startswith("student-general-"))
    assert found.holds(name)
    assert name in found.workshop.students
    assert name not in {shape.base for shape, _ in found.workshop.taught.values()}
    assert not any(each.name.startswith(f"{name}-exits") for each in found.tried)
    # Without time for it the search ends before it, and what was tried until then stays.
    assert [each.name for each in hunt(max_drop=1.0, student=("a", "b"), time_budget=600.0).tried][-1].startswith(
        "student-a-"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        {"min_speedup": 20.0},
        {"max_latency": 0.1, "traffic": "alone"},
        {"max_drop": 1.0, "min_speedup": 30.0},
        {"max_drop": 100.0, "min_speedup": 45.0, "exits": False},
        {"max_size": 20e6},
        {"max_size": 8e6},
        {"max_drop": 1.0, "max_size": 12e6},
        {"max_drop": 0.0},
        {"max_drop": 100.0},
    ],
)
def test_every_kind_of_budget_ends_with_the_best_that_is_afforded(asked, hunt):
    """The pick keeps within what is asked, and nothing else that does is faster; of speed alone nothing that is as fast loses less."""
    found = hunt(**asked)
    pick = picked(found)
    (chosen,) = (each for each in found.finished if each.name == pick)
    assert affords(chosen, found.budget)
    others = [each for each in found.finished if affords(each, found.budget)]
    if found.budget.seeks_speed:
        assert found.holds(pick)
        assert chosen.speedup == max(each.speedup for each in others if found.holds(each.name))
    else:
        assert found.losses[pick].points == min(found.losses[each.name].points for each in others)


@pytest.mark.slow
@pytest.mark.parametrize("asked", [{"max_latency": 0.3}, {"max_latency": 0.3, "max_size": 12e6}])
def test_a_shape_that_comes_out_slower_than_is_asked_is_followed_by_smaller_ones(asked, hunt, monkeypatch):
    """One text at a time gains less than a batch does, which is what times are predicted of. No proposal is needed."""
    monkeypatch.setattr("hf_albert_plus.search.hunt._IDLE", 0)
    found = hunt(alone=0.7, exits=False, **asked)
    (chosen,) = (each for each in found.finished if each.name == picked(found))
    assert chosen.latency_ms <= 0.3
    assert chosen.latency_ms > 0.2


def test_shared_layers_of_any_number_may_come_nearest(hunt, monkeypatch):
    """Five of them, which are none of the depths that other shapes are compared at. No proposal is needed."""
    monkeypatch.setattr("hf_albert_plus.search.hunt._IDLE", 0)
    shapes = {f"layers{layers}-width100-e{width}-shared16": 0.0 for layers in (3, 4, 5, 6) for width in (64, 128, 256)}
    found = hunt(max_size=8e6, lost=shapes, exits=False)
    assert picked(found) == "layers5-width100-e128-shared16"
    assert "proposal" in found.ended or "nothing new" in found.ended


@pytest.mark.slow
def test_what_cannot_be_exported_is_left_and_the_search_goes_on(hunt):
    whole = hunt(max_drop=1.0, exits=False)
    broken = max((each for each in whole.finished if whole.holds(each.name)), key=lambda each: each.speedup).name
    found = hunt(max_drop=1.0, exits=False, broken=broken)
    (left,) = (each for each in found.tried if each.name == broken)
    assert left.measured is None
    assert "says something else" in left.why
    assert broken not in found.workshop.taught
    assert picked(found) not in (None, "teacher", broken)
    # Where nothing can be, the teacher is what there is.
    assert [each.name for each in hunt(max_drop=1.0, broken="layers").finished][:1] == ["teacher"]


@pytest.mark.slow
def test_a_trimmed_teacher_that_cannot_be_exported_ends_no_search(hunt):
    assert "trimmed" in [each.name for each in hunt(max_drop=1.0, trims=True).finished]
    found = hunt(max_drop=1.0, trims=True, broken="trimmed")
    assert [each.why for each in found.tried if each.name == "trimmed"] != [None]
    assert picked(found) not in (None, "teacher", "trimmed")


@pytest.mark.slow
def test_where_whole_layers_are_too_slow_fewer_are_tried(hunt):
    """The thinnest of six layers is 50 times the teacher's pace."""
    found = hunt(min_speedup=60.0, exits=False)
    (chosen,) = (each for each in found.finished if each.name == picked(found))
    assert chosen.speedup >= 60
    assert not chosen.name.startswith("layers6")
