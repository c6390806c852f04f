"""More rows of tagged words: as many tags as words, entities as they were, and noise that a teacher tags."""

from random import Random

import pytest

from hf_albert_plus.distillation.augmentation.candidates import MaskedLmCandidates
from hf_albert_plus.distillation.augmentation.noise import noised, noised_sentences, noised_words
from hf_albert_plus.distillation.augmentation.stage import augment, candidates_of_row, replace_in_row
from hf_albert_plus.distillation.augmentation.words import split_words
from hf_albert_plus.distillation.settings import AugmentSettings
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.tagged import tagged_sentences, write_tagged

FEW = AugmentSettings(copies=2, candidates=4, probability=0.9, seed=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_tagged(tmp_path_factory.mktemp("tagged") / "my.jsonl", tagged_sentences(24)))


def augmented(data, out, masked_lm, **settings):
    """The task and the rows, each of which is followed by its copies."""
    task = find_task(data, DataSettings(**settings))
    augment(data, task=task, output=out, settings=FEW, masked_lm=str(masked_lm))
    return find_task(str(out)), load_split(str(out), find_task(str(out)), "train").to_list()


def test_copies_have_as_many_tags_as_words_and_entities_as_they_were(data, masked_lm, tmp_path):
    task, rows = augmented(data, tmp_path / "out", masked_lm)
    whole = load_split(data, find_task(data), "train").to_list()
    assert len(rows) == 3 * len(whole)
    assert (task.kind, task.tag_scheme) == ("tags", "IOB2")
    changed = 0
    for place, row in enumerate(rows):
        original = whole[place // 3]
        assert len(row["tokens"]) == len(row["label"]) == len(original["tokens"])
        assert row["label"] == original["label"]
        for word, before, tag in zip(row["tokens"], original["tokens"], row["label"], strict=True):
            assert word == before or task.labels[tag] == "O"
            assert " " not in word
            changed += word != before
        assert place % 3 or row["tokens"] == original["tokens"]
    assert changed > len(whole)
    judged = [load_split(each, find_task(each), "validation").to_list() for each in (data, str(tmp_path / "out"))]
    assert judged[0] == judged[1]


def test_words_of_tags_without_entities_may_all_be_replaced(tmp_path, masked_lm):
    kinds = [(words, ["N" if len(word) > 4 else "F" for word in words]) for words, _ in tagged_sentences(12)]
    data = str(write_tagged(tmp_path / "plain.jsonl", kinds))
    task, rows = augmented(data, tmp_path / "out", masked_lm)
    assert task.tag_scheme == "plain"
    whole = load_split(data, find_task(data), "train").to_list()
    changed = {
        task.labels[tag]
        for place, row in enumerate(rows)
        for word, before, tag in zip(row["tokens"], whole[place // 3]["tokens"], row["label"], strict=True)
        if word != before
    }
    assert changed == {"N", "F"}


def test_a_word_with_a_blank_in_it_stays_one(data, masked_lm):
    """Candidates are asked by words, not by what blanks cut."""
    words = ("the", "New York", "doctor", "a\u00a0b")
    assert [stem + tail for stem, tail in split_words(words)] == list(words)
    found = MaskedLmCandidates(str(masked_lm)).candidates([words], count=3)[words]
    assert len(found) == 4
    task = find_task(data)
    row = {"tokens": list(words), "ner_tags": ["O", "B-where", "O", "O"]}
    candidates = candidates_of_row(row, task, lambda text: [["x", "y"] for _ in text])
    assert candidates == {"tokens": [["x", "y"], [], ["x", "y"], ["x", "y"]]}
    copy, replaced = replace_in_row(row, candidates, probability=1.0, random=Random(0))
    assert (len(copy["tokens"]), copy["tokens"][1], replaced) == (4, "New York", 3)
    assert copy["ner_tags"] == row["ner_tags"]
    assert row["tokens"] == list(words)


def test_the_verb_reads_what_it_wrote(data, masked_lm, tmp_path):
    task, rows = augmented(data, tmp_path / "once", masked_lm)
    augment(str(tmp_path / "once"), task=task, output=tmp_path / "twice", settings=FEW, masked_lm=str(masked_lm))
    again = load_split(str(tmp_path / "twice"), task, "train")
    assert len(again) == 3 * len(rows)
    assert all(len(row["tokens"]) == len(row["label"]) for row in again)


def test_noise_of_sentences():
    """Of a share of 1 every word is replaced, dropped or followed by another; an empty sentence stays what it was."""
    sentences = [["a", "b", "New York"], ["c"]]
    made = list(noised_sentences(sentences, copies=200, random=Random(0)))
    assert len(made) == 400
    assert all(made)
    assert {word for sentence in made for word in sentence} == {"a", "b", "New York", "c"}
    assert any(len(sentence) != 3 for sentence in made[:200])
    assert sum(sentence == sentences[0] for sentence in made[:200]) < 180
    kinds = [noised_words(["a"], ["z"], share=1.0, random=Random(seed)) for seed in range(1000)]
    shares = {tuple(kind): kinds.count(kind) / 1000 for kind in (["z"], [], ["a", "z"])}
    assert shares == {("z",): pytest.approx(0.6, abs=0.05), (): pytest.approx(0.2, abs=0.05), ("a", "z"): pytest.approx(0.2, abs=0.05)}  # fmt: skip
    assert noised("a", ["z"], share=1.0, random=Random(next(seed for seed in range(1000) if not kinds[seed]))) == "a"
