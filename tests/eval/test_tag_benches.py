"""The benches of answers in company and of a server, of taggers: words that depend on nobody else, some that do, and wrong targets."""

import shutil
from dataclasses import replace

import pytest
import torch
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2

from hf_albert_plus.engines.text_classifier import TextClassifier
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load import neighbours, served
from hf_albert_plus.eval.load.tagged_neighbours import best_alone, in_both, of_words, served_tags
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.eval.settings import InvarianceSettings, ServedSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.export.stage import export
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.task_file import write_task
from tests.support.graphs import quantise_dynamically
from tests.support.local_server import InProcess
from tests.support.tagged import tagged_sentences, write_tagged
from tests.support.taggers import make_model_of

WAYS = ["batches of 3", "padded", "pipeline", "server"]
SETTINGS = InvarianceSettings(rows=12, batches=(3,), padded_to=30, clients=2)


@pytest.fixture(scope="module")
def traffic(tmp_path_factory):
    data = str(write_tagged(tmp_path_factory.mktemp("tagged") / "my.jsonl", tagged_sentences(160)))
    return Traffic(data=data, task=find_task(data), max_length=32)


@pytest.fixture(scope="module")
def exported(traffic, tokenizer_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("taggers")
    write_task(make_model_of(traffic.task, folder / "plain", tokenizer_dir), traffic.task)
    export(folder / "plain", to=["onnx"], output=folder / "ours")
    shutil.copytree(folder / "ours", folder / "dynamic")
    (folder / "dynamic" / "record.json").unlink()
    quantise_dynamically(folder / "dynamic" / "onnx" / "model.onnx", folder / "dynamic" / "onnx" / "model_int8.onnx")
    return folder


@pytest.fixture(scope="module")
def document(exported, traffic):
    targets = [parse_target(str(exported / "ours")), parse_target(f"{exported / 'dynamic'}:onnx-int8")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "ServerProcess", InProcess)
        yield neighbours.bench_invariance(
            targets, baseline=parse_target(f"{exported / 'ours'}:onnx"), traffic=traffic, settings=SETTINGS
        )


@pytest.mark.slow
def test_words_whose_tags_depend_on_nobody_else(document):
    ours = document.rows[0]
    assert list(ours.ways) == WAYS
    for way in WAYS:
        assert ours.ways[way].difference_over_mean < 1e-4, way
        assert ours.ways[way].changed_predictions == 0
    assert (ours.cosine, ours.other_predictions) == (pytest.approx(1, abs=1e-6), 0)
    assert ours.score == ours.score_in_batches


def test_words_whose_tags_depend_on_the_batch(document):
    dynamic = document.rows[1]
    for way in WAYS:
        assert dynamic.ways[way].difference_over_mean > 1e-3, way


def test_the_score_is_that_of_each_sentence_alone(document, exported, traffic):
    tagger = TextClassifier(exported / "ours", "onnx", cores=1, max_length=None)
    said, held = [], []
    for row in traffic.rows.select(range(SETTINGS.rows)):
        (tagged,) = tagger.tag([row["tokens"]])
        said.append([word["tag"] for word in tagged.words])
        held.append([traffic.task.labels[tag] for tag in row["label"]])
    expected = f1_score(held, said, mode="strict", scheme=IOB2, zero_division=0)
    assert document.rows[0].score == pytest.approx(100 * float(expected))


def test_words_beyond_the_longest_input_are_compared_with_nothing():
    tokens_SC = torch.tensor([[9.0, 9.0], [1.0, 2.0], [4.0, 3.0]])
    words_WC = of_words(tokens_SC, [1, -1, 2])
    assert words_WC.isnan().all(-1).tolist() == [False, True, False]
    one, other = in_both([words_WC], [of_words(tokens_SC, [-1, 1, 2])])
    assert one.tolist() == other.tolist() == [[4.0, 3.0]]
    scores_WC = best_alone(torch.tensor([[0.25, 0.75], [torch.nan, torch.nan], [0.6, 0.4]]))
    said = [{"tag": "B-x", "score": 0.75}, {"tag": "O", "score": None}, {"tag": "O", "score": 0.5}]
    one, other = in_both([scores_WC.double()], [served_tags({"words": said}, ("O", "B-x"))])
    assert other.tolist() == [[0.0, 0.75], [0.5, 0.0]]
    assert one[0].tolist() == [0.0, 0.75]


@pytest.mark.slow
def test_a_server_is_compared_with_its_engine(monkeypatch, exported, traffic, short_benches):
    monkeypatch.setattr(served, "ServerProcess", InProcess)
    monkeypatch.setattr(served, "_BLOCK", 16)
    monkeypatch.setattr(served, "_ROUNDS", 2)
    settings = ServedSettings(texts=8, clients=2, seconds=1)
    document = served.bench_served(parse_target(f"{exported / 'ours'}:onnx"), traffic, settings)
    assert document["label_agreement"] == 1
    assert document["throughput"][served.SERVED]["speedup"] > 0


def test_what_cannot_be_asked(exported, traffic, classifier_dir, tmp_path):
    target = parse_target(f"{exported / 'ours'}:onnx")
    with pytest.raises(InvalidInput, match="bench serve --peers is for tasks with an answer to each text"):
        served.bench_served(target, traffic, ServedSettings(seconds=1), peers=tmp_path)
    texts = parse_target(str(classifier_dir))
    with pytest.raises(InvalidInput, match="a target for my must have 6 labels"):
        neighbours.bench_invariance([texts], baseline=texts, traffic=traffic, settings=SETTINGS)
    (first, *others) = traffic.task.labels
    other = replace(traffic, task=replace(traffic.task, labels=(first, *reversed(others))))
    with pytest.raises(InvalidInput, match="must number the labels of my as O"):
        neighbours.bench_invariance([target], baseline=target, traffic=other, settings=SETTINGS)
