"""Near-copies: what every pair of texts says by itself, and a validation split that has none of its training rows'."""

import csv
import random
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from hf_albert_plus.tasks import near_copies
from hf_albert_plus.tasks.division import split_off
from hf_albert_plus.tasks.inspection import look_at
from hf_albert_plus.tasks.near_copies import groups_of_near_copies, stand_nearly_in
from hf_albert_plus.tasks.own_data import find_task, for_training, in_words
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task import HeldOut
from hf_albert_plus.tasks.task_file import read_task, write_task

WORDS = [
    "the",
    "a",
    "film",
    "plot",
    "is",
    "was",
    "not",
    "so",
    "very",
    "good",
    "bad",
    "cast",
    "and",
    "but",
    "of",
    "with",
    "funny",
    "dull",
    "long",
    "end",
]


def sentences(count, *, seed, longest=12):
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(1, longest))) for _ in range(count)]


def phrases(count, *, seed):
    """Sentences of words of their own, each followed by parts of it."""
    chosen = random.Random(seed)
    texts = []
    for number in range(count):
        words = [f"{chosen.choice(WORDS)}{number}" for _ in range(chosen.randint(6, 14))]
        texts.append(" ".join(words))
        for _ in range(chosen.randint(0, 4)):
            start = chosen.randint(0, len(words) - 4)
            texts.append(" ".join(words[start : start + chosen.randint(4, 6)]))
    return texts


def runs(text):
    words = text.split()
    return {tuple(words[place : place + 3]) for place in range(len(words) - 2)}


def are_alike(one, other, *, alike):
    if one == other:
        return True
    fewer = min(len(runs(one)), len(runs(other)))
    return fewer > 0 and len(runs(one) & runs(other)) >= alike * fewer


def grouped(texts, *, alike):
    """Groups by comparing every pair."""
    groups = [{place} for place in range(len(texts))]
    for one, other in combinations(range(len(texts)), 2):
        if are_alike(texts[one], texts[other], alike=alike):
            joined = next(group for group in groups if one in group) | next(group for group in groups if other in group)
            groups = [group for group in groups if not group & joined] + [joined]
    return sorted(sorted(group) for group in groups)


def by_number(numbers):
    return sorted(sorted(place for place, other in enumerate(numbers) if other == number) for number in set(numbers))


@pytest.mark.parametrize("alike", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("block", [7, 256])
def test_groups_are_those_of_all_pairs(monkeypatch, alike, block):
    monkeypatch.setattr(near_copies, "_BLOCK", block)
    for texts in (sentences(150, seed=1), phrases(40, seed=2), sentences(40, seed=3, longest=3)):
        expected = grouped(texts, alike=alike)
        assert by_number(groups_of_near_copies(texts, alike=alike)) == expected
        assert len(expected) < len(texts)
    assert groups_of_near_copies([], alike=alike) == []


@pytest.mark.parametrize("block", [7, 256])
def test_texts_stand_in_others_where_one_of_these_has_nearly_all_their_runs(monkeypatch, block):
    monkeypatch.setattr(near_copies, "_BLOCK", block)
    both = phrases(60, seed=4)
    texts, others = both[::2], both[1::2]
    expected = [
        any(one == other or (runs(one) and len(runs(one) & runs(other)) >= 0.7 * len(runs(one))) for other in others)
        for one in texts
    ]
    assert stand_nearly_in(texts, others) == expected
    assert 0.2 * len(texts) < sum(expected) < 0.8 * len(texts)
    # A part of a text stands in it, and it does not stand in the part.
    assert stand_nearly_in(["dull and long"], ["the film was dull and long , with a bad end"]) == [True]
    assert stand_nearly_in(["the film was dull and long , with a bad end"], ["dull and long"]) == [False]
    assert stand_nearly_in(["any"], []) == [False]


def test_case_blanks_and_scripts():
    first, second, *others = groups_of_near_copies(["A fine  Film", "a fine film", "fine film", "", " "])
    assert first == second
    assert others[0] != first
    assert others[1] == others[2]
    film, same, other = groups_of_near_copies(["我很喜欢这部电影", "我很喜欢这部电影了", "他不喜欢那本书"])
    assert film == same != other


def test_a_run_that_very_many_texts_have_ties_none(monkeypatch):
    texts = [f"one of the {number}" for number in range(30)]
    monkeypatch.setattr(near_copies, "_MOST_TEXTS", 30)
    assert len(set(groups_of_near_copies(texts, alike=0.5))) == 1
    monkeypatch.setattr(near_copies, "_MOST_TEXTS", 29)
    assert len(set(groups_of_near_copies(texts, alike=0.5))) == 30


def test_no_row_that_is_held_out_has_a_near_copy_among_the_others():
    texts = phrases(200, seed=6)
    classes = [random.Random(place).randint(0, 2) for place in range(len(texts))]
    kept, held = split_off(texts, classes, share=0.1, seed=1)
    assert sorted(kept + held) == list(range(len(texts)))
    assert not any(are_alike(texts[one], texts[other], alike=0.7) for one in held for other in kept)
    # Rows of one group have several classes, of which each gives its share all the same.
    rows, given = Counter(classes), Counter(classes[place] for place in held)
    assert all(0.07 * rows[name] < given[name] < 0.15 * rows[name] for name in rows)
    # By equal texts alone, many of those held out are parts of training rows.
    kept, held = split_off(texts, classes, share=0.1, seed=1, near_copies=False)
    assert sum(any(are_alike(texts[one], texts[other], alike=0.7) for other in kept) for one in held) > len(held) / 2


def test_the_order_of_the_rows_does_not_matter():
    texts = phrases(100, seed=7)
    held = {texts[place] for place in split_off(texts, None, share=0.1, seed=1)[1]}
    places = list(range(len(texts)))
    random.Random(0).shuffle(places)
    shuffled = [texts[place] for place in places]
    assert {shuffled[place] for place in split_off(shuffled, None, share=0.1, seed=1)[1]} == held
    assert {texts[place] for place in split_off(texts, None, share=0.1, seed=2)[1]} != held


@pytest.mark.parametrize("number", ["the price of order {} is too high for me to pay", "order {} is late"])
def test_of_texts_by_one_pattern_a_tenth_is_held_out_all_the_same(number):
    texts = [number.format(place) for place in range(300)]
    kept, held = split_off(texts, [place % 3 for place in range(300)], share=0.1, seed=1)
    assert (len(kept), len(held)) == (270, 30)


def test_a_class_whose_rows_are_all_near_copies_keeps_them():
    texts = ["where is my parcel number one two three"] * 40 + phrases(60, seed=8)
    classes = ["parcel"] * 40 + ["other"] * (len(texts) - 40)
    kept, held = split_off(texts, classes, share=0.1, seed=1)
    assert set(range(40)) <= set(kept)
    assert len(held) >= 5


def written(path, texts):
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), *((text, "yes" if len(text) % 2 else "no") for text in texts)])
    return str(path)


@pytest.fixture
def data(tmp_path):
    return written(tmp_path / "my.csv", phrases(60, seed=9))


def test_a_task_holds_near_copies_out_together_and_says_so(data, tmp_path):
    task = find_task(data)
    assert in_words(data, task).endswith("(seed 42, stratified, near-copies on one side)")
    train, validation = (load_split(data, task, split)["text"][:] for split in ("train", "validation"))
    assert not any(stand_nearly_in(validation, train))
    assert not any(stand_nearly_in(train, validation))
    write_task(tmp_path, task)
    assert read_task(tmp_path) == task


def test_a_task_of_an_earlier_version_holds_out_the_rows_that_it_did(data, tmp_path):
    found = find_task(data)
    before = replace(found, held_out=HeldOut(of=found.held_out.of))
    assert "near-copies" not in in_words(data, before)
    whole = [row["text"] for row in load_split(data, replace(found, held_out=None), "train")]
    labels = load_split(data, replace(found, held_out=None), "train")["label"][:]
    held = split_off(whole, labels, share=0.1, seed=42, near_copies=False)[1]
    assert load_split(data, before, "validation")["text"][:] == [whole[place] for place in held]
    # Trained on again, it keeps them: its teacher has seen the others.
    assert for_training(before, data) == before
    assert for_training(replace(before, held_out=None), data) == found


def test_near_copies_over_two_files_are_counted_and_said(tmp_path):
    texts = phrases(60, seed=10)
    written(tmp_path / "my" / "train.csv", texts[::2])
    written(tmp_path / "my" / "test.csv", texts[1::2])
    data = str(tmp_path / "my")
    task = find_task(data)
    facts = look_at(data, task)
    learned = load_split(data, task, "train")["text"][:]
    alike = sum(
        any(len(runs(text) & runs(other)) >= 0.7 * len(runs(text)) for other in learned) for text in texts[1::2]
    )
    assert facts.nearly_repeated["test"] == alike > facts.rows["test"] / 4
    (said,) = [warning for warning in facts.warnings if "nearly whole" in warning]
    assert f"got {alike} of the {facts.rows['test']} of test" in said
    assert "put the rows of both into one file" in said
