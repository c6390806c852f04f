"""The floor: against scikit-learn's own pipelines, vectors made one at a time, and documents that a report reads."""

import json

import numpy
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from transformers import AutoModel, AutoTokenizer

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.floor.floor_classifier import FloorClassifier, features_of
from hf_albert_plus.eval.floor.linear import fits
from hf_albert_plus.eval.floor.stage import floor
from hf_albert_plus.eval.floor.static_embeddings import StaticEmbeddings
from hf_albert_plus.eval.floor.tf_idf import TfIdf
from hf_albert_plus.eval.measured_documents import read_scores
from hf_albert_plus.eval.reporting.floor_notes import floor_notes
from hf_albert_plus.eval.reporting.table import Row, Table
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.command_line import invoke

WORDS = {"good": ("great", "lovely"), "bad": ("awful", "dull"), "odd": ("strange", "weird")}


def _row(kind, random):
    names = [name for name in WORDS if random.random() < 0.5] if kind == "labels" else [random.choice(list(WORDS))]
    text = " ".join([*(str(random.choice(WORDS[name])) for name in names), *random.choice(["film", "plot", "cast"], 3)])
    label = {"classes": names[:1] and names[0], "labels": names, "number": len(text) / 3}[kind]
    return {"text": text, "label": label}


@pytest.fixture(scope="module", params=["classes", "labels", "number"])
def mine(request, tmp_path_factory):
    """Data of a kind, and their task."""
    folder, random = tmp_path_factory.mktemp(request.param) / "mine", numpy.random.default_rng(0)
    folder.mkdir()
    for split, count in (("train", 120), ("validation", 60)):
        rows = [_row(request.param, random) for _ in range(count)]
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder, find_task(str(folder), DataSettings(kind=request.param))


def test_words_are_what_scikit_learns_pipeline_makes_of_them(mine):
    folder, task = mine
    train, judged = load_split(str(folder), task, "train"), load_split(str(folder), task, "validation")
    labels = numpy.asarray(train["label"])
    made = {
        "classes": LogisticRegression(C=10.0, max_iter=300),
        "labels": OneVsRestClassifier(LogisticRegression(C=10.0, max_iter=300, class_weight="balanced")),
        "number": Ridge(alpha=0.1),
    }[task.kind]
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, strip_accents="unicode", dtype=numpy.float32)
    pipeline = make_pipeline(words, made).fit(train["text"], labels)
    vectors = TfIdf.of(list(train["text"]))
    (linear,) = fits(features_of(vectors, [list(train["text"])]), labels, task, strengths=[10.0])
    logits = linear.logits(features_of(vectors, [list(judged["text"])]))
    if task.kind == "number":
        numpy.testing.assert_allclose(logits[:, 0], pipeline.predict(judged["text"]), rtol=1e-4)
        return
    wide = torch.from_numpy(logits).double()
    probabilities = wide.sigmoid() if task.kind == "labels" else wide.softmax(-1)
    numpy.testing.assert_allclose(probabilities, pipeline.predict_proba(judged["text"]), atol=1e-4)


def test_vectors_of_tokens_are_made_one_at_a_time(encoder_dir):
    """Up to a rotation, which PCA is free in: distances of texts are those of a weighted sum of what the encoder gives each token."""
    texts = ["a good film", "a film", "not good at all", "a a a a"]
    static = StaticEmbeddings.of(texts, teacher=str(encoder_dir))
    tokenizer, encoder = AutoTokenizer.from_pretrained(encoder_dir), AutoModel.from_pretrained(encoder_dir).eval()
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    with torch.no_grad():
        alone = [encoder(torch.tensor([[cls, i, sep]])).last_hidden_state[0].mean(0) for i in range(len(tokenizer))]
    table = torch.stack(alone).double().numpy()
    table -= table.mean(0)
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    counts = numpy.stack([numpy.bincount(row, minlength=len(table)) for row in ids])
    weights = 1e-3 / (1e-3 + counts.sum(0) / counts.sum())
    sums = counts @ (table * weights[:, None])
    sums /= numpy.linalg.norm(sums, axis=1, keepdims=True)
    found = static.vectors(texts)
    numpy.testing.assert_allclose(found @ found.T, sums @ sums.T, atol=1e-4)
    assert not static.vectors([""]).any()


def test_a_pair_has_both_their_distance_and_their_product():
    vectors = TfIdf.of(["good film", "bad film", "film"])
    u, v = (vectors.vectors([text]).toarray() for text in ("good film", "bad film"))
    found = features_of(vectors, [["good film"], ["bad film"]]).toarray()
    numpy.testing.assert_allclose(found, numpy.hstack([u, v, abs(u - v), u * v]))


def test_classes_that_no_training_row_has_are_never_given():
    task = get_task("mnli")
    features = numpy.random.default_rng(0).normal(size=(40, 4))
    labels = numpy.where(features[:, 0] > 0, 2, 0)
    (linear,) = fits(features, labels, task, strengths=[1.0])
    said = linear.logits(features).argmax(-1)
    assert set(said) == {0, 2}
    assert (said == labels).mean() > 0.9


@pytest.mark.filterwarnings("error")
def test_a_regression_that_ends_before_it_converges_is_kept_without_a_word(monkeypatch):
    features, labels = numpy.random.default_rng(1).normal(size=(40, 5)), numpy.arange(40) % 3
    (converged,) = fits(features, labels, get_task("mnli"), strengths=[1e3])
    monkeypatch.setattr("hf_albert_plus.eval.floor.linear._ITERATIONS", 1)
    (kept,) = fits(features, labels, get_task("mnli"), strengths=[1e3])
    assert not numpy.allclose(kept.weight_FC, converged.weight_FC)


def test_a_label_that_no_row_or_every_row_has(mine):
    _, task = mine
    if task.kind != "labels":
        pytest.skip("of several labels")
    features = numpy.random.default_rng(0).normal(size=(30, 4))
    labels = numpy.stack([numpy.zeros(30), numpy.ones(30), features[:, 0] > 0], axis=-1).astype(int)
    (linear,) = fits(features, labels, task, strengths=[100.0])
    assert ((linear.logits(features) > 0)[:, :2] == labels[:, :2]).all()


@pytest.mark.slow
def test_the_stage_scores_what_it_wrote(mine, encoder_dir, tmp_path):
    """The reopened classifiers' predictions under scikit-learn, and files that anybody reads."""
    folder, task = mine
    record = floor(data=str(folder), task=task, output=tmp_path / "f", teacher=str(encoder_dir))
    assert floor(data=str(folder), task=task, output=tmp_path / "f", teacher=str(encoder_dir)).reused
    scores = read_scores(tmp_path / "f" / "scores.json")
    assert [(row.label, row.runtime) for row in scores.rows] == [("tf-idf", "floor"), ("static", "floor")]
    judged = load_split(str(folder), task, "validation")
    for row in scores.rows:
        run = row.runs[0]
        logits = FloorClassifier.open(tmp_path / "f" / row.label).logits([list(judged["text"])])
        labels = numpy.asarray(judged["label"])
        if task.kind == "classes":
            expected = accuracy_score(labels, logits.argmax(-1))
        elif task.kind == "labels":
            expected = f1_score(labels, logits >= 0, average="micro", zero_division=0)
        else:
            expected = numpy.corrcoef(labels, logits[:, 0])[0, 1]
        assert next(iter(row.metrics.values())) == pytest.approx(100 * expected, abs=1e-3)
        assert run.file_bytes == sum(file.stat().st_size for file in (tmp_path / "f" / row.label).iterdir())
        assert run.throughput[0].sentences_per_s > 0
    assert record.result[f"tf-idf {task.name}"] == scores.rows[0].metrics
    assert {path.suffix for path in (tmp_path / "f").rglob("*") if path.is_file()} == {".json", ".safetensors"}
    assert set(load_file(tmp_path / "f" / "tf-idf" / "model.safetensors")) == {"idf", "weight", "bias"}


def test_the_strength_is_the_best_on_validation_rows(mine, tmp_path):
    folder, task = mine
    if task.kind != "classes":
        pytest.skip("one kind is enough")
    floor(data=str(folder), task=task, output=tmp_path / "f")
    train, judged = load_split(str(folder), task, "train"), load_split(str(folder), task, "validation")
    vectors = TfIdf.of(list(train["text"]))
    features, to_judge = (vectors.vectors(list(rows["text"])) for rows in (train, judged))
    tried = {linear.strength: accuracy_score(judged["label"], linear.logits(to_judge).argmax(-1)) for linear in fits(features, numpy.asarray(train["label"]), task, strengths=[1.0, 10.0, 100.0])}  # fmt: skip
    kept = FloorClassifier.open(tmp_path / "f" / "tf-idf").linear.strength
    assert tried[kept] == max(tried.values())


@pytest.mark.parametrize(
    ("student", "words"), [(90.9, "tf-idf is within a point of student on mine, or better"), (91.1, None)]
)
def test_a_report_says_where_the_floor_is_near(mine, tmp_path, student, words):
    folder, task = mine
    if task.kind != "classes":
        pytest.skip("points")
    floor(data=str(folder), task=task, output=tmp_path / "f")
    (scored,) = read_scores(tmp_path / "f" / "scores.json").rows
    rows = []
    for name, runtime, value in (("teacher", "torch", 95.0), ("student", "torch", student), ("tf-idf", "floor", 90.0)):
        row = type(scored)(**{**vars(scored), "label": name, "name": name, "runtime": runtime, "metrics": {"accuracy": value}})  # fmt: skip
        rows.append(Row(name, name, runtime, scores={"mine": row}))
    lines = floor_notes(Table(baseline="teacher", tasks=("mine",), loads=(), rows=tuple(rows)))
    assert lines[0].startswith(
        "The floor of mine, classifiers without an encoder, from text to answer: tf-idf 90.0 at "
    )
    assert [line for line in lines[1:] if words is None or words not in line] == []
    assert len(lines) == (1 if words is None else 2)


def test_the_verb(tmp_path):
    random = numpy.random.default_rng(0)
    rows = [_row("classes", random) for _ in range(80)]
    (tmp_path / "my.csv").write_text("\n".join(["text,label", *(f"{row['text']},{row['label']}" for row in rows)]))
    printed = invoke("floor", "--data", tmp_path / "my.csv", "--out", tmp_path / "floor", "--json")
    assert json.loads(printed.stdout)["result"]["tf-idf my"]["accuracy"] > 50


def test_texts_without_words_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="a floor by TF-IDF needs texts with words"):
        TfIdf.of(["?", "!"])
