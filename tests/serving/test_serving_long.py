"""Long texts get one answer, whoever asks: scoring, every engine, batch scoring, the server's routes; against transformers' own model by hand."""

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

from hf_albert_plus.batch_scoring import stage
from hf_albert_plus.batch_scoring.distribution import WorkerPool
from hf_albert_plus.batch_scoring.settings import ScoreSettings
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.batched_inference import Batching, predict
from hf_albert_plus.eval.scoring import score_targets
from hf_albert_plus.eval.settings import EvalSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.export.stage import export
from hf_albert_plus.serving.catalogue import Catalogue
from hf_albert_plus.serving.gate import Gate
from hf_albert_plus.serving.queued_model import QueuedModel
from hf_albert_plus.serving.settings import ServeSettings
from hf_albert_plus.tasks.long_texts import LongTexts
from hf_albert_plus.tasks.rows import encode, load_tokenizer
from hf_albert_plus.tasks.splits import load_split
from hf_albert_plus.tasks.task import Task, measures_of
from hf_albert_plus.tasks.task_file import write_task
from hf_albert_plus.tasks.windows import windows
from tests.support.kinds import CLOSE, KINDS, NAMES, make_classifier
from tests.support.local_server import Running
from tests.support.parts import answer_parts_here
from tests.support.taggers import TAGS, make_tagger

SIZE = 16
WORDS = ["a", "good", "film", "with", "bad", "plot", "and", "the", "cast", "is", "not", "great", "at", "all"]
LONG = " ".join(WORDS[(number * number) % len(WORDS)] for number in range(70))
ODD = f"{LONG} e\u0301te\u0301 Zürich 👩‍👩‍👧 o'clock {LONG}東京の天気 שלום…"
TEXTS = [LONG, "no", f"{LONG} great", "the cast"]
OF_KINDS = {"one of three": "classes", "several, own thresholds": "labels", "a number": "number"}


def make_long(directory, tokenizer_dir, kind, *, way="windows", overlap=None):
    """A classifier whose task reads long texts so, in rows of 16 tokens of its 64 positions."""
    model = make_classifier(directory, tokenizer_dir, **KINDS[kind])
    of_task = OF_KINDS[kind]
    task = Task(
        name="mine", columns=("text",), kind=of_task, labels=() if of_task == "number" else NAMES, metrics=measures_of(of_task),
        epochs=1, batch_size=8, max_length=SIZE, long=LongTexts(way, overlap),
        label_columns=NAMES if of_task == "labels" else ("label",),
    )  # fmt: skip
    write_task(directory, task)
    return model, task


def by_hand(directory, texts, kind):
    """The logits of texts by transformers' model on each window, joined in numpy."""
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    joined = []
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        spans = windows(len(ids), size=SIZE - 2, overlap=(SIZE - 2) // 4)
        of_windows = []
        for span in spans:
            row = [tokenizer.cls_token_id, *ids[span.start : span.stop], tokenizer.sep_token_id]
            with torch.no_grad():
                of_windows.append(model(torch.tensor([row])).logits[0].numpy())
        several = OF_KINDS.get(kind) == "labels"
        joined.append(numpy.max(of_windows, axis=0) if several else numpy.mean(of_windows, axis=0))
    return numpy.array(joined)


@pytest.fixture(scope="module", params=OF_KINDS)
def long_model(request, tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("long")
    _, task = make_long(directory, tokenizer_dir, request.param)
    return directory, task, request.param


def serve(model, **settings):
    chosen = ServeSettings(cores=1, **settings)
    return Running(Catalogue({"it": {1: QueuedModel(model, "torch", chosen)}}), chosen, Gate())


@pytest.mark.slow
def test_everything_that_asks_says_the_same(long_model, tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "cluster", lambda pool: nullcontext(pool))
    monkeypatch.setattr(stage, "score_parts", answer_parts_here)
    directory, task, kind = long_model
    expected = by_hand(directory, TEXTS, kind)
    assert numpy.abs(expected[0] - expected[1]).max() > 0.1
    # The engine by itself.
    classifier = TextClassifier(directory, "torch", cores=1, max_length=None)
    answers = classifier.answer(TEXTS)
    numpy.testing.assert_allclose(answers.values, expected, atol=CLOSE, rtol=1e-4)
    assert answers.truncated == [False] * 4
    assert answers.tokens[0] > 2 * SIZE > answers.tokens[1]
    # Scoring, on rows of data.
    label = {"classes": "rude", "number": 1.5}.get(task.kind)
    rows = [{"text": text, **(dict.fromkeys(NAMES, 1) if label is None else {"label": label})} for text in TEXTS]
    data = tmp_path / "validation.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "train.jsonl").write_text(data.read_text())
    engine = Engine.load(directory, "torch")
    tokenizer = load_tokenizer(directory, engine.config)
    encoded = encode(load_split(str(tmp_path), task, "validation"), task, tokenizer, max_length=SIZE)
    found = predict(engine, encoded.to_list(), tokenizer, Batching().of(encoded["length"]))
    numpy.testing.assert_allclose(found, expected, atol=CLOSE, rtol=1e-4)
    scores = score_targets(
        [parse_target(str(directory))], data=str(tmp_path), task=task, settings=EvalSettings(max_length=SIZE)
    )
    (run,) = scores.rows[0].runs
    assert len(run.predictions) == len(TEXTS)
    assert run.windows is not None
    assert run.windows.mean == pytest.approx(len(encoded) / 4, abs=1e-3)
    # Batch scoring.
    score(directory, data, tmp_path)
    table = pq.read_table(tmp_path / "out" / "scores")
    numpy.testing.assert_allclose(numpy.array(table["logits"].to_pylist()), expected, atol=CLOSE, rtol=1e-4)
    assert table["tokens"].to_pylist() == answers.tokens
    # The server, on both of its routes.
    running = serve(directory)
    try:
        status, content = running.classify(inputs=TEXTS)
        assert status == 200
        for prediction, row in zip(content["predictions"], classifier.facts.rule.scores(expected), strict=True):
            assert list(prediction["scores"].values()) == pytest.approx(row.tolist(), abs=CLOSE)
        assert [each["tokens"] for each in content["predictions"]] == answers.tokens
        tensors = [{"name": "text", "shape": [4], "datatype": "BYTES", "data": TEXTS}]
        status, _, content = running.ask("POST", "/v2/models/it/infer", {"inputs": tensors})
        assert status == 200
        (logits,) = (each for each in content["outputs"] if each["name"] == "logits")
        numpy.testing.assert_allclose(
            numpy.array(logits["data"]).reshape(expected.shape), expected, atol=CLOSE, rtol=1e-4
        )
        status, _, content = running.ask("GET", "/v2/models/it")
        assert (content["parameters"]["max_length"], content["parameters"]["long"]) == (SIZE, "windows")
    finally:
        running.stop()


def score(directory, data, tmp_path):
    return stage.score(
        [str(data)], engine=directory, runtime="torch", output=tmp_path / "out", settings=ScoreSettings(logits=True), pool=WorkerPool()
    )  # fmt: skip


@pytest.mark.slow
def test_every_engine_joins(tokenizer_dir, tmp_path):
    """In torch, tokenised by transformers, and as a graph, tokenised by the tokenizers library alone; exported, it carries the setting."""
    make_long(tmp_path / "model", tokenizer_dir, "one of three")
    export(tmp_path / "model", to=["onnx"], output=tmp_path / "exported")
    expected = by_hand(tmp_path / "model", TEXTS, "one of three")
    for runtime in ("torch", "onnx"):
        found = TextClassifier(tmp_path / "exported", runtime, cores=1, max_length=None)
        assert found.facts.max_length == SIZE
        numpy.testing.assert_allclose(found.answer(TEXTS).values, expected, atol=CLOSE, rtol=1e-4)


def test_short_texts_and_models_without_the_setting_are_as_before(tokenizer_dir, tmp_path):
    for way in ("cut", "windows", "head-tail"):
        make_long(tmp_path / way, tokenizer_dir, "one of three", way=way)
    make_classifier(tmp_path / "bare", tokenizer_dir, **KINDS["one of three"])
    answers = {
        way: TextClassifier(tmp_path / way, "torch", cores=1, max_length=SIZE).answer([TEXTS[1], TEXTS[3]])
        for way in ("cut", "windows", "head-tail", "bare")
    }
    for each in answers.values():
        assert (each.values == answers["bare"].values).all()
        assert (each.tokens, each.truncated) == (answers["bare"].tokens, [False, False])
    # What is cut takes all positions unless told otherwise, as it always did.
    bare, cut = (TextClassifier(tmp_path / way, "torch", cores=1, max_length=None) for way in ("bare", "cut"))
    assert bare.facts.max_length == cut.facts.max_length == 64


def test_the_beginning_and_the_end_of_a_text_decide(tokenizer_dir, tmp_path):
    make_long(tmp_path, tokenizer_dir, "one of three", way="head-tail")
    classifier, tokenizer = (
        TextClassifier(tmp_path, "torch", cores=1, max_length=None),
        AutoTokenizer.from_pretrained(tmp_path),
    )
    ids = tokenizer(LONG, add_special_tokens=False)["input_ids"]
    row = [tokenizer.cls_token_id, *ids[:4], *ids[-10:], tokenizer.sep_token_id]
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        expected = model(torch.tensor([row])).logits.numpy()
    answers = classifier.answer([LONG])
    numpy.testing.assert_allclose(answers.values, expected, atol=CLOSE, rtol=1e-4)
    assert (answers.tokens, answers.truncated) == ([SIZE], [True])
    # A text of a megabyte is not tokenised whole, and its end is read all the same.
    huge = classifier.answer([f"{' '.join(WORDS[:4])} {'film ' * 200_000}{LONG}"])
    beginning = tokenizer(" ".join(WORDS[:4]), add_special_tokens=False)["input_ids"][:4]
    with torch.no_grad():
        expected = model(torch.tensor([[row[0], *beginning, *row[5:]]])).logits.numpy()
    numpy.testing.assert_allclose(huge.values, expected, atol=CLOSE, rtol=1e-4)
    running = serve(tmp_path)
    try:
        status, content = running.classify(inputs=LONG)
        assert (status, content["predictions"][0]["truncated"]) == (200, True)
    finally:
        running.stop()


def test_a_megabyte_is_bounded_work_and_said(tokenizer_dir, tmp_path):
    make_long(tmp_path, tokenizer_dir, "one of three")
    huge = "a good film " * (1_000_000 // 12)
    answers = TextClassifier(tmp_path, "torch", cores=1, max_length=None).answer([huge, "no"])
    assert answers.truncated == [True, False]
    assert answers.tokens[0] == 64 * SIZE
    running = serve(tmp_path)
    try:
        status, content = running.classify(inputs=[huge, "no"])
        assert status == 422
        assert "64 windows of 16 tokens" in content["error"]
        somewhat = "a good film " * 2000
        status, content = running.classify(inputs=somewhat)
        assert status == 422
        assert "64 windows of 16 tokens" in content["error"]
        status, content = running.classify(inputs=[huge, "no"], truncate=True)
        assert status == 200
        assert [each["truncated"] for each in content["predictions"]] == [True, False]
        assert content["predictions"][0]["tokens"] == 64 * SIZE
    finally:
        running.stop()


def test_pairs_are_windows_of_the_second_text(tokenizer_dir, tmp_path):
    model, _ = make_long(tmp_path, tokenizer_dir, "one of three")
    classifier, tokenizer = (
        TextClassifier(tmp_path, "torch", cores=1, max_length=None),
        AutoTokenizer.from_pretrained(tmp_path),
    )
    first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a film", LONG))
    room = SIZE - 3 - len(first)
    logits = []
    for span in windows(len(second), size=room, overlap=room // 4):
        head = [tokenizer.cls_token_id, *first, tokenizer.sep_token_id]
        tail = [*second[span.start : span.stop], tokenizer.sep_token_id]
        with torch.no_grad():
            ids, types = torch.tensor([head + tail]), torch.tensor([[0] * len(head) + [1] * len(tail)])
            logits.append(model.eval()(ids, token_type_ids=types).logits[0].numpy())
    found = classifier.answer([("a film", LONG), ("a film", "no")])
    numpy.testing.assert_allclose(found.values[0], numpy.mean(logits, axis=0), atol=CLOSE, rtol=1e-4)


@pytest.fixture(scope="module")
def long_tagger(tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tagger")
    make_tagger(directory, tokenizer_dir)
    task = Task(
        name="mine", columns=("words",), kind="tags", labels=TAGS, metrics=("entity_f1",), epochs=1, batch_size=8, max_length=SIZE,
        tag_scheme="IOB2", long=LongTexts("windows"),
    )  # fmt: skip
    write_task(directory, task)
    return directory, task


def test_tags_are_those_of_the_most_central_window(long_tagger):
    """Each token's window is found by trying all of them; characters are of the text as it came, whatever it holds."""
    directory, _ = long_tagger
    model, tokenizer = (each.from_pretrained(directory) for each in (AutoModelForTokenClassification, AutoTokenizer))
    encoded = tokenizer(ODD, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    spans = windows(len(ids), size=SIZE - 2, overlap=(SIZE - 2) // 4)
    probabilities = []
    for span in spans:
        row = torch.tensor([[tokenizer.cls_token_id, *ids[span.start : span.stop], tokenizer.sep_token_id]])
        with torch.no_grad():
            probabilities.append(model.eval()(row).logits[0, 1:-1].softmax(dim=-1).numpy())
    expected = {}
    for place in range(len(ids)):
        beside = [min(place - span.start, span.stop - 1 - place) if place in span else -1 for span in spans]
        central = beside.index(max(beside))
        expected[offsets[place][0]] = probabilities[central][place - spans[central].start]
    (tagged,) = TextClassifier(directory, "torch", cores=1, max_length=None).tag([ODD])
    assert [word["word"] for word in tagged.words][:3] == ODD.split()[:3]
    for word in tagged.words:
        assert ODD[word["start"] : word["end"]] == word["word"]
        row = expected[next(start for start in sorted(expected) if start >= word["start"])]
        assert (word["tag"], word["score"]) == (TAGS[int(row.argmax())], pytest.approx(float(row.max()), abs=CLOSE))
    for each in tagged.entities:
        assert ODD[each["start"] : each["end"]] == each["text"]
    running = serve(directory)
    try:
        status, _, content = running.ask("POST", "/tag", {"inputs": [ODD, "no"]})
        assert status == 200
        said = content["predictions"][0]
        assert [(word["start"], word["tag"]) for word in said["words"]] == [
            (word["start"], word["tag"]) for word in tagged.words
        ]
        assert not said["truncated"]
        tensors = [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [ODD]}]
        status, _, content = running.ask("POST", "/v2/models/it/infer", {"inputs": tensors})
        (found,) = (each for each in content["outputs"] if each["name"] == "offsets")
        assert numpy.array(found["data"]).reshape(found["shape"])[0, 1:-1].tolist() == [list(span) for span in offsets]
    finally:
        running.stop()


def test_tags_at_both_ends_of_a_text_that_loses_its_middle(long_tagger, tmp_path, tokenizer_dir):
    _, task = long_tagger
    make_tagger(tmp_path, tokenizer_dir)
    write_task(tmp_path, replace(task, long=LongTexts("head-tail")))
    classifier = TextClassifier(tmp_path, "torch", cores=1, max_length=None)
    text = f"e\u0301te\u0301 {'film ' * 40_000}👩‍👩‍👧 Zürich the cast is great"
    (tagged,) = classifier.tag([text])
    seen = [word for word in tagged.words if word["score"] is not None]
    assert (seen[0]["word"], seen[-1]["word"]) == ("e\u0301te\u0301", "great")
    assert len(seen) <= SIZE - 2 < len(tagged.words)
    for word in tagged.words:
        assert text[word["start"] : word["end"]] == word["word"]
    # The end is read beside the beginning alone: the same as of the text without its middle, to the last tag.
    (short,) = classifier.tag([f"e\u0301te\u0301 {'film ' * 30}👩‍👩‍👧 Zürich the cast is great"])
    assert [(word["word"], word["tag"]) for word in seen] == [
        (word["word"], word["tag"]) for word in short.words if word["score"] is not None
    ]


def test_tags_are_scored_as_they_are_answered(long_tagger, tmp_path):
    directory, task = long_tagger
    sentences = [LONG.split(), ["no"], f"{LONG} Zürich".split()]
    rows = [{"words": words, "tags": ["O"] * len(words)} for words in sentences]
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    of_data = replace(task, label_columns=("tags",))
    scores = score_targets(
        [parse_target(str(directory))], data=str(tmp_path), task=of_data, settings=EvalSettings(max_length=SIZE)
    )
    tagged = TextClassifier(directory, "torch", cores=1, max_length=None).tag(sentences)
    assert scores.rows[0].runs[0].predictions == [[TAGS.index(word["tag"]) for word in each.words] for each in tagged]


def test_a_server_with_too_few_tokens_for_the_overlap_is_refused(tokenizer_dir, tmp_path):
    make_long(tmp_path, tokenizer_dir, "one of three", overlap=8)
    assert TextClassifier(tmp_path, "torch", cores=1, max_length=None).facts.long == LongTexts("windows", 8)
    with pytest.raises(InvalidInput, match=r"at most half of --max-length \(12\), got 8"):
        TextClassifier(tmp_path, "torch", cores=1, max_length=12)
