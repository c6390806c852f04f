"""Texts made of rows by noise: what changes is counted, words come from the rows, and pairs are of the three kinds."""

from collections import Counter
from random import Random

import pytest

from hf_albert_plus.distillation.augmentation.noise import noised, noised_rows

TEXT = " ".join(f"w{number}" for number in range(40_000))


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_words_change_as_often_as_is_said(share):
    """Of n words 0.6·share are replaced, 0.2·share dropped and 0.2·share followed by another: within four standard deviations."""
    found = noised(TEXT, ["new"], share=share, random=Random(0)).split()
    words = TEXT.split()
    new = sum(word == "new" for word in found)
    kept = [word for word in found if word != "new"]
    order = {word: place for place, word in enumerate(words)}
    assert sorted(kept, key=order.__getitem__) == kept
    assert len(set(kept)) == len(kept)
    for count, rate in ((new, 0.8 * share), (len(words) - len(kept), 0.8 * share), (len(words) - len(found), 0.0)):
        deviation = (len(words) * share) ** 0.5
        assert abs(count - rate * len(words)) < 4 * deviation


def test_nothing_left_is_the_text_itself():
    texts = {noised("alone", ["other"], share=1.0, random=Random(seed)) for seed in range(50)}
    assert texts == {"alone", "other", "alone other"}


def test_single_texts_have_so_many_copies_of_words_of_the_rows():
    rows = [(f"a text about the thing {number}",) for number in range(30)]
    made = list(noised_rows(rows, copies=3, random=Random(1)))
    assert len(made) == 90
    known = {word for (text,) in rows for word in text.split()}
    assert {word for (text,) in made for word in text.split()} <= known
    assert all(len(set(text.split()) & set(rows[place // 3][0].split())) >= 2 for place, (text,) in enumerate(made))
    assert made == list(noised_rows(rows, copies=3, random=Random(1)))
    assert made != list(noised_rows(rows, copies=3, random=Random(2)))


def test_pairs_are_of_three_kinds():
    """Each row has words of its own, and shares a rare one with the next row's second text."""
    rows = [
        (f"first{n} one{n} two{n} three{n} rare{n}", f"second{n} four{n} five{n} six{n} rare{n - 1}")
        for n in range(400)
    ]
    kinds = Counter()
    for place, (left, right) in enumerate(noised_rows(rows, copies=4, random=Random(3))):
        first, second = rows[place // 4]
        if left == first and right == rows[min(place // 4 + 1, 399)][1]:
            kinds["anew"] += 1
        elif {left, right} & {first, second} and len(set(left.split()) & set(right.split())) >= 2:
            kinds["itself"] += 1
        else:
            kinds["noise"] += 1
    assert kinds["anew"] == pytest.approx(400, abs=70)
    assert kinds["itself"] == pytest.approx(400, abs=70)
    assert kinds["noise"] == pytest.approx(800, abs=85)
