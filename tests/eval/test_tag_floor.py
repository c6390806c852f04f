"""The floor of tags: features and tags by hand, scikit-learn's own pipeline, and scores by seqeval's."""

import json
from collections import Counter, defaultdict

import numpy
import pytest
import seqeval.metrics
import seqeval.scheme
from scipy.special import softmax
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.floor import word_features
from hf_albert_plus.eval.floor.floor_classifier import FloorClassifier
from hf_albert_plus.eval.floor.frequent_tags import frequent_tags
from hf_albert_plus.eval.floor.linear import fits
from hf_albert_plus.eval.floor.stage import floor
from hf_albert_plus.eval.floor.word_features import WordFeatures, WordsAlone, seen_of, shape_of
from hf_albert_plus.eval.measured_documents import read_scores
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke
from tests.support.tagged import tagged_sentences, write_tagged


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagged")
    write_tagged(folder / "train.jsonl", tagged_sentences(60))
    write_tagged(folder / "validation.jsonl", tagged_sentences(30, seed=1))
    return str(folder)


def test_what_is_seen_of_a_word():
    assert set(seen_of(["Fly", "to", "B-52s"], 0)) == {
        "word=fly", "shape=Xx", "begin=f", "begin=fl", "begin=fly", "end=y", "end=ly", "end=fly",
        "-2=\n", "-2 shape=\n", "-1=\n", "-1 shape=\n", "+1=to", "+1 shape=x", "+2=b-52s", "+2 shape=X-0x",
    }  # fmt: skip
    assert set(seen_of(["a"], 0)) >= {"word=a", "begin=a", "end=a"}
    assert len(seen_of(["a"], 0)) == len(set(seen_of(["a"], 0)))


@pytest.mark.parametrize(
    ("word", "shape"),
    [("Paris", "Xx"), ("USA", "X"), ("3.14", "0.0"), ("McDonald", "XxXx"), ("...", "."), ("東京", "x"), ("\n\n", "\n")],
)
def test_shapes(word, shape):
    assert shape_of(word) == shape


def test_words_are_what_scikit_learns_pipeline_makes_of_them(data):
    task = find_task(data)
    train, judged = (load_split(data, task, split) for split in ("train", "validation"))
    tags = numpy.concatenate(train["label"][:])

    def described(rows):
        return [dict.fromkeys(seen_of(words, place), 1.0) for words in rows["tokens"] for place in range(len(words))]

    pipeline = make_pipeline(DictVectorizer(), LogisticRegression(C=1.0, max_iter=300, tol=1e-3)).fit(
        described(train), tags
    )
    vectors = WordFeatures.of(list(train["tokens"]))
    (linear,) = fits(vectors.vectors(list(train["tokens"])), tags, task, strengths=[1.0])
    found = softmax(linear.logits(vectors.vectors(list(judged["tokens"]))), axis=-1)
    numpy.testing.assert_allclose(found, pipeline.predict_proba(described(judged)), atol=2e-3)


def test_a_word_has_its_most_frequent_tag(data):
    task = find_task(data)
    train, judged = (list(load_split(data, task, split)["tokens"]) for split in ("train", "validation"))
    tags = numpy.concatenate(load_split(data, task, "train")["label"][:])
    of_word, of_all = defaultdict(Counter), Counter(tags.tolist())
    for word, tag in zip((word for words in train for word in words), tags.tolist(), strict=True):
        of_word[word][tag] += 1
    vectors = WordsAlone.of(train)
    linear = frequent_tags(vectors.vectors(train), tags, tag_count=task.num_labels)
    asked = [*judged, ["unheard", "of"]]
    logits = linear.logits(vectors.vectors(asked))
    for word, row in zip((word for words in asked for word in words), logits, strict=True):
        counts = of_word.get(word) or of_all
        assert counts[int(row.argmax())] == max(counts.values())
        expected = [(of_word[word][tag] + of_all[tag] / len(tags)) / (sum(of_word[word].values()) + 1) for tag in range(task.num_labels)]  # fmt: skip
        numpy.testing.assert_allclose(softmax(row.astype(float)), expected, rtol=1e-4)


def test_a_tag_that_no_training_row_has_is_never_given():
    words = WordsAlone.of([["a", "b"]]).vectors([["a", "b", "a"]])
    linear = frequent_tags(words, numpy.array([0, 2, 0]), tag_count=4)
    logits = linear.logits(words)
    assert logits.argmax(-1).tolist() == [0, 2, 0]
    assert (logits[:, [1, 3]] < -100).all()
    assert numpy.isfinite(logits).all()


def test_rare_features_are_left_out_of_many_words(data, monkeypatch):
    task = find_task(data)
    train = list(load_split(data, task, "train")["tokens"])
    all_of_them = set(WordFeatures.of(train).vectorizer.vocabulary_)
    monkeypatch.setattr(word_features, "_LARGE", 100)
    counts = Counter(seen for words in train for place in range(len(words)) for seen in seen_of(words, place))
    kept = set(WordFeatures.of(train).vectorizer.vocabulary_)
    assert kept == {seen for seen, count in counts.items() if count > 1} < all_of_them
    assert len(WordsAlone.of(train).vectorizer.vocabulary_) == len({word for words in train for word in words})


def test_the_stage_scores_what_it_wrote(data, tmp_path):
    """The reopened classifiers' tags under seqeval, and files that anybody reads."""
    task = find_task(data)
    record = floor(data=data, task=task, output=tmp_path / "f", teacher="no directory: tags have no static row")
    scores = read_scores(tmp_path / "f" / "scores.json")
    assert [(row.label, row.runtime) for row in scores.rows] == [("word-features", "floor"), ("frequent-tag", "floor")]
    judged = load_split(data, task, "validation")
    held = [[task.labels[tag] for tag in tags] for tags in judged["label"]]
    for row in scores.rows:
        logits = FloorClassifier.open(tmp_path / "f" / row.label).logits([list(judged["tokens"])])
        said = [[task.labels[tag] for tag in of_words.argmax(-1)] for of_words in logits]
        expected = seqeval.metrics.f1_score(held, said, mode="strict", scheme=seqeval.scheme.IOB2)
        assert row.metrics["entity_f1"] == pytest.approx(100 * expected)
        run = row.runs[0]
        assert run.predictions == [[task.labels.index(tag) for tag in tags] for tags in said]
        assert run.file_bytes == sum(file.stat().st_size for file in (tmp_path / "f" / row.label).iterdir())
        (pace,) = run.throughput
        assert pace.words_per_s == pytest.approx(pace.sentences_per_s * sum(map(len, held)) / len(held), rel=0.01)
    assert scores.rows[0].metrics["entity_f1"] > scores.rows[1].metrics["entity_f1"] > 20
    assert {path.suffix for path in (tmp_path / "f").rglob("*") if path.is_file()} == {".json", ".safetensors"}
    assert "teacher" not in record.parents


def test_the_verb(data, encoder_dir, tmp_path):
    printed = invoke("floor", "--data", data, "--out", tmp_path / "floor", "--json")
    assert json.loads(printed.stdout)["result"][f"word-features {find_task(data).name}"]["entity_f1"] > 50
    with pytest.raises(InvalidInput, match="floor --teacher is for tasks with an answer to each text"):
        invoke("floor", "--data", data, "--teacher", encoder_dir, "--out", tmp_path / "other")
    assert not (tmp_path / "other").exists()
