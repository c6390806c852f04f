"""A search for a smaller tagger: its judge against a bootstrap written out, distances by hand, texts that are made up, and a search from end to
end."""

import json
from random import Random

import numpy
import pytest
import torch
from scipy.special import rel_entr, softmax
from seqeval.scheme import IOB2, Tokens
from transformers import AutoModelForTokenClassification, AutoTokenizer

from hf_albert_plus.cli import pipeline
from hf_albert_plus.cli.settings import RunSettings
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.eval.metrics import comparable
from hf_albert_plus.eval.resampling import Sample
from hf_albert_plus.eval.tag_scores import padded_tags
from hf_albert_plus.search.divergence import measure_divergence
from hf_albert_plus.search.made_up_texts import COPIES, make_up_texts
from hf_albert_plus.search.pick import Judge, Measured
from hf_albert_plus.search.set_aside import set_aside
from hf_albert_plus.search.settings import Budget, CompressSettings
from hf_albert_plus.search.stage import compress
from hf_albert_plus.tasks.own_data import find_task, more_texts
from hf_albert_plus.tasks.splits import load_split
from tests.support.benches import planted_paces
from tests.support.tagged import tagged_sentences, write_tagged
from tests.support.taggers import make_model_of


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(write_tagged(tmp_path_factory.mktemp("tagged") / "my.jsonl", tagged_sentences(80)))


@pytest.fixture(scope="module")
def task(data):
    return find_task(data)


@pytest.fixture(scope="module")
def tagger(task, tokenizer_dir, tmp_path_factory):
    return make_model_of(task, tmp_path_factory.mktemp("tagger"), tokenizer_dir)


# --- the judge


def said_of(held, *, wrong, seed, task):
    """Tags of which a share is drawn anew, without any rule."""
    random = Random(seed)
    return [[random.choice(task.labels) if random.random() < wrong else tag for tag in tags] for tags in held]


def sample_of(said, held, task):
    ids = [padded_tags([[task.labels.index(tag) for tag in tags] for tags in rows]) for rows in (said, held)]
    counts, unread = comparable(*ids, task)
    return Sample(counts[None], unread)


def f1_of_sentences(said, held):
    """Rows -> points of entity F1, by seqeval's reading of each sentence."""
    read = [[{(e.tag, e.start, e.end) for e in Tokens(list(tags), IOB2).entities} for tags in rows] for rows in (said, held)]  # fmt: skip
    counts = numpy.array([(len(found & there), len(found) + len(there)) for found, there in zip(*read, strict=True)])
    return lambda rows: 200 * counts[rows, 0].sum() / max(1, counts[rows, 1].sum())


@pytest.fixture(scope="module")
def judged(task):
    held = [tags for _, tags in tagged_sentences(150, seed=3)]
    theirs = said_of(held, wrong=0.1, seed=1, task=task)
    return held, theirs, said_of(theirs, wrong=0.04, seed=2, task=task)


def test_what_is_lost_of_entities_and_its_bound(judged, task):
    """Sentences are drawn one by one, with all of their entities, for teacher and student together."""
    held, theirs, ours = judged
    teacher, student = (f1_of_sentences(said, held) for said in (theirs, ours))
    loss = Judge(task, sample_of(theirs, held, task), seed=0).loss(sample_of(ours, held, task))
    every = numpy.arange(len(held))
    assert loss.points == pytest.approx(teacher(every) - student(every))
    random, drops, apart = numpy.random.default_rng(99), [], []
    for _ in range(4000):
        rows, others = random.integers(len(held), size=(2, len(held)))
        drops.append(teacher(rows) - student(rows))
        apart.append(teacher(rows) - student(others))
    assert loss.at_most == pytest.approx(numpy.quantile(drops, 0.9), abs=0.3)
    # Drawn each by itself, the two would differ by more.
    assert numpy.quantile(apart, 0.9) > loss.at_most + 0.3


def test_a_tagger_is_picked_by_its_entities(judged, task):
    held, theirs, ours = judged
    teacher, worse = sample_of(theirs, held, task), sample_of(ours, held, task)
    found = [Measured("same", teacher, 4.0, 1.0, 9), Measured("worse", worse, 30.0, 1.0, 9)]
    judge = Judge(task, teacher, seed=0)
    assert judge.choose(found, Budget(max_drop=1.0)).name == "same"
    pick = judge.choose(found[1:], Budget(min_speedup=20))
    # Each fold is answered by the only one that there is: what is expected is what it loses.
    assert (pick.name, pick.expected_loss) == ("worse", pytest.approx(pick.losses["worse"].points, abs=1e-3))


# --- the rows


def test_words_are_set_aside_and_made_up(data, task, tmp_path):
    rows, record = set_aside(data, task=task, output=tmp_path / "rows", seed=1)
    parts = [load_split(str(rows.data), rows.task, split).to_list() for split in ("train", "validation")]
    assert record.result == {"learned_from": len(parts[0]), "set_aside": len(parts[1])}
    whole = load_split(data, task, "train").to_list()
    assert sorted(map(str, parts[0] + parts[1])) == sorted(map(str, whole))
    path, made = make_up_texts(rows, output=tmp_path / "texts", seed=1)
    texts = more_texts(str(path), rows.task)
    assert len(texts) == made.result["texts"] == COPIES * len(parts[0])
    assert texts["label"][:] == [[]] * len(texts)
    known = {word for row in parts[0] for word in row["tokens"]}
    assert {word for words in texts["tokens"] for word in words} <= known
    assert sum(words == parts[0][place // COPIES]["tokens"] for place, words in enumerate(texts["tokens"])) < len(texts)


def test_the_distance_of_taggers_is_a_mean_over_words(data, task, tagger, tokenizer_dir, tmp_path):
    """First pieces alone, of each sentence by itself."""
    rows, _ = set_aside(data, task=task, output=tmp_path / "rows", seed=0)
    other = make_model_of(task, tmp_path / "other", tokenizer_dir)
    turned = AutoModelForTokenClassification.from_pretrained(other)
    with torch.no_grad():
        turned.classifier.weight.mul_(-2)
    turned.save_pretrained(other)
    given = {"rows": rows, "max_length": 12, "precision": "fp32", "answered": {}}
    found, _ = measure_divergence(other, tagger, **given, output=tmp_path / "a")
    tokenizer, said = AutoTokenizer.from_pretrained(tagger), []
    for source in (other, tagger):
        model, logits = AutoModelForTokenClassification.from_pretrained(source).eval(), []
        for words in load_split(str(rows.data), rows.task, "validation")["tokens"]:
            encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=12, return_tensors="pt")
            of_words = encoded.word_ids()
            places = [place for place, word in enumerate(of_words) if word is not None and word != of_words[place - 1]]
            with torch.no_grad():
                logits.append(model(**encoded).logits[0, places])
        said.append(torch.cat(logits).numpy())
    expected = rel_entr(softmax(said[1], -1), softmax(said[0], -1)).sum(-1).mean()
    assert found == pytest.approx(expected, rel=1e-3)


# --- the search


def test_a_run_searches_for_a_tagger(data, task, tagger, tmp_path, monkeypatch):
    asked = {}

    class Asked(Exception):
        pass

    def search(teacher, **given):
        asked.update(given)
        raise Asked

    monkeypatch.setattr(pipeline, "search", search)
    settings = RunSettings(max_length=24, shapes="1x8")
    assert settings.has_floor(task)
    with pytest.raises(Asked):
        pipeline.run_pipeline(str(tagger), data=data, tasks=[task], out=tmp_path / "out", settings=settings)
    assert asked["task"] == task


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_search(data, task, tagger, tmp_path, monkeypatch, short_benches):
    """Faster and faster shapes, the floor beside them, and a pick that tags words; every shape holds the budget."""
    monkeypatch.setattr("hf_albert_plus.search.hunt._IDLE", 0)
    out = tmp_path / "out"
    settings = CompressSettings(epochs=0.4, max_length=24, precision="fp32", time_budget=1e6, max_drop=100.0)
    with planted_paces():
        found = compress(str(tagger), data=data, task=task, out=out, settings=settings)
    document = json.loads((out / "compress.json").read_text())
    assert (document["metric"], document["pick"]) == ("entity_f1", found.pick.name)
    names = [each["name"] for each in document["candidates"]]
    assert names[0] == "teacher"
    assert len(names) > 2
    assert not any("exits" in name for name in names)
    assert (out / "compress.md").read_text().count("No candidate has exits") == 1
    assert f"--unlabelled {out / 'texts' / 'texts.parquet'}" in (out / "compress.html").read_text()
    report = (next((out / "finals").iterdir()) / "report" / "report.md").read_text()
    assert "word-features" in report
    assert "frequent-tag" in report
    assert "word-features and frequent-tag are classifiers without an encoder." in (out / "pick" / "README.md").read_text()  # fmt: skip
    words = ["the", "sailor", "sold", "the", "lamp"]
    (said,) = TextClassifier(out / "pick", found.runtime, cores=1, max_length=None).tag([words])
    assert [word["word"] for word in said.words] == words
