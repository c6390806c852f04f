"""Near-copies: what every pair of texts says by itself, and a validation split that has none of its training rows'."""

import csv
import random
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from hf_albert_plus.search.set_aside import set_aside
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
            start = chosen.randint(0, len(words) - 5)
            texts.append(" ".join(words[start : start + chosen.randint(5, 7)]))
    return texts


def runs(text):
    words = text.split()
    return {tuple(words[place : place + 3]) for place in range(len(words) - 2)}


def are_alike(one, other, *, alike):
    if one == other:
        return True
    fewer, more = sorted((len(runs(one)), len(runs(other))))
    return more > 0 and len(runs(one) & runs(other)) >= alike * (fewer if fewer >= 3 else more)


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
        any(
            one == other or (len(runs(one)) >= 3 and len(runs(one) & runs(other)) >= 0.7 * len(runs(one)))
            for other in others
        )
        for one in texts
    ]
    assert stand_nearly_in(texts, others) == expected
    assert 0.2 * len(texts) < sum(expected) < 0.8 * len(texts)
    # A part of a text stands in it, and it does not stand in the part. Three words are a turn of phrase.
    part, whole = "dull and long with a bad end", "The film was dull and long, with a bad end!"
    assert stand_nearly_in([part, whole, "dull and long"], [whole]) == [True, True, False]
    assert stand_nearly_in([whole], [part]) == [False]
    assert stand_nearly_in([part], []) == [False]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("A fine  Film !", "a fine film", True),
        ("a fine film", "fine film", False),
        ("", " ", True),
        ("...", "?!", False),
        ("…", "…", True),
        ("cafe\u0301 creme", "café creme", True),
        ("我很喜欢这部电影。", "我很喜欢这部电影了", True),
        ("我很喜欢这部电影", "他不喜欢那本书", False),
        ("नमस्ते", "वह नमस्ते कहकर घर चला गया", False),
        ("वह नमस्ते कहकर घर चला", "वह नमस्ते कहकर घर चला गया।", True),
        ("so good 👍", "so good 👎", False),
    ],
)
def test_words_of_many_scripts(one, other, alike):
    """Case, blanks and signs do not count; marks that belong to a letter do not end a word."""
    first, second = groups_of_near_copies([one, other])
    assert (first == second) is alike


def test_a_turn_of_phrase_ties_none():
    """Neither one of few words that stands in many texts, nor three dots, nor what very many have."""
    turns = ["thank you very much", "..."]
    texts = [f"w{number} x{number} y{number} {turns[number % 2]} z{number}" for number in range(60)]
    assert len(set(groups_of_near_copies([*turns, *texts], alike=0.5))) == 62


def test_a_run_that_very_many_texts_have_ties_none(monkeypatch):
    texts = [f"one of the first and {number}" for number in range(30)]
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


def test_a_class_by_one_pattern_gives_its_share_and_keeps_together_what_is_more_alike():
    """All rows of a class share three quarters of their runs; of each, there are three with nearly the same."""
    tails = ["now", "soon", "today"]
    pattern = "dear customer your account {} has been locked please click here to verify the number {}"
    spam = [pattern.format(place, tail) for place in range(100) for tail in tails]
    texts, classes = spam + phrases(150, seed=8), ["spam"] * len(spam)
    classes += ["other"] * (len(texts) - len(spam))
    kept, held = split_off(texts, classes, share=0.1, seed=1)
    given = Counter(classes[place] for place in held)
    assert 25 <= given["spam"] <= 35
    assert given["other"] >= 0.08 * classes.count("other")
    families = [{place // 3 for place in places if place < len(spam)} for places in (kept, held)]
    assert not families[0] & families[1]
    # Of equal texts alone, none can be given.
    same = ["where is my parcel number one two three"] * 40
    kept, _ = split_off(same + texts, ["parcel"] * 40 + classes, share=0.1, seed=1)
    assert set(range(40)) <= set(kept)


@pytest.mark.parametrize("seed", range(8))
def test_a_class_whose_rows_stand_beside_others_gives_its_share(seed):
    """The other class may give more than its share then, and less than twice as much."""
    pairs = [
        f"{word} v{number} w{number} x{number} y{number} z{number}" for number in range(50) for word in ("good", "bad")
    ]
    large = [
        f"a{number} b{number} c{number} d{number} e{number} f{place}" for number in range(10) for place in range(40)
    ]
    classes = ["rare", "often"] * 50 + ["often"] * 400
    _, held = split_off(pairs + large, classes, share=0.1, seed=seed)
    given = Counter(classes[place] for place in held)
    assert given["rare"] == 5
    assert 45 <= given["often"] <= 90


def test_what_most_rows_say_is_held_out_too():
    """Where turns of phrase tie most rows to each other, only those that are more alike stay together."""
    turns = [f"p{number} q{number} r{number} s{number} t{number}" for number in range(10)]
    texts = turns + [f"u{place} v{place} {turns[place % 10]} {turns[place % 7]} w{place}" for place in range(400)]
    assert max(Counter(groups_of_near_copies(texts)).values()) > 300
    _, held = split_off(texts, None, share=0.1, seed=1)
    assert len(held) == 41


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


def test_what_a_search_sets_aside_has_no_near_copies_among_what_is_learned(data, tmp_path):
    rows, _ = set_aside(data, task=find_task(data), output=tmp_path / "rows", seed=1)
    learned, aside = (load_split(str(rows.data), rows.task, split)["text"][:] for split in ("train", "validation"))
    assert not any(stand_nearly_in(aside, learned))
    assert not any(stand_nearly_in(learned, aside))


def test_a_task_of_an_earlier_version_holds_out_the_rows_that_it_did(data, tmp_path):
    found = find_task(data)
    before = replace(found, held_out=HeldOut(of=found.held_out.of))
    assert "near-copies" not in in_words(data, before)
    whole = [row["text"] for row in load_split(data, replace(found, held_out=None), "train")]
    labels = load_split(data, replace(found, held_out=None), "train")["label"][:]
    held = split_off(whole, labels, share=0.1, seed=42, near_copies=False)[1]
    assert load_split(data, before, "validation")["text"][:] == [whole[place] for place in held]
    # Records say of it what they said, so that what was begun goes on.
    assert before.settings["task_rows"]["held_out"].keys() == {"of", "share", "seed"}
    assert found.settings["task_rows"]["held_out"]["near_copies"] is True
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
    assert f"got {alike - facts.repeated['test']} of the {facts.rows['test']} of test" in said
    assert "put the rows of both into one file" in said


def test_equal_texts_over_two_files_are_said_once(tmp_path):
    texts = phrases(30, seed=11)
    written(tmp_path / "my" / "train.csv", texts)
    written(tmp_path / "my" / "validation.csv", texts)
    facts = look_at(str(tmp_path / "my"), find_task(str(tmp_path / "my")))
    assert facts.nearly_repeated["validation"] == facts.repeated["validation"] == len(texts)
    assert not any("nearly whole" in warning for warning in facts.warnings)


def test_held_out_rows_of_one_pattern_are_said_to_be_so(tmp_path):
    data = written(
        tmp_path / "my.csv", [f"the price of order {place} is too high for me to pay" for place in range(300)]
    )
    (said,) = [warning for warning in look_at(data, find_task(data)).warnings if "nearly whole" in warning]
    assert "got 60 of the 60 of validation" in said
    assert "add --validation FILE" in said
