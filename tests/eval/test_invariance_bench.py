"""The bench of answers in company: one that depends on nobody else, one that does, and their scores."""

import shutil

import numpy
import pytest
from sklearn.metrics import accuracy_score

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.eval.load import neighbours
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.eval.settings import InvarianceSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import load_tokenizer
from tests.support.graphs import quantise_dynamically
from tests.support.local_server import InProcess

WAYS = ["batches of 3", "batches of 16", "padded", "pipeline", "server"]
SETTINGS = InvarianceSettings(rows=24, batches=(3, 16), padded_to=30, clients=4)


@pytest.fixture(scope="module")
def document(exported_dir, data_dir, tmp_path_factory):
    dynamic = tmp_path_factory.mktemp("dynamic") / "model"
    shutil.copytree(exported_dir, dynamic)
    (dynamic / "record.json").unlink()
    quantise_dynamically(dynamic / "onnx" / "model.onnx", dynamic / "onnx" / "model_int8.onnx")
    targets = [
        parse_target(text)
        for text in (f"ours={exported_dir}:onnx-int8", f"dynamic={dynamic}:onnx-int8", str(exported_dir))
    ]
    traffic = Traffic(data=str(data_dir), task=get_task("mrpc"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "ServerProcess", InProcess)
        yield neighbours.bench_invariance(
            targets, baseline=parse_target(f"{exported_dir}:onnx"), traffic=traffic, settings=SETTINGS
        )


def test_answers_that_depend_on_nobody_else(document):
    ours, _, torch_row = document.rows
    assert list(ours.ways) == WAYS
    for row in (ours, torch_row):
        for way in WAYS:
            assert row.ways[way].difference_over_mean < 1e-4, way
            assert row.ways[way].changed_predictions == 0
        assert row.score_in_batches == row.score
    assert (torch_row.cosine, torch_row.other_predictions) == (pytest.approx(1, abs=1e-6), 0)
    assert 0.99 < ours.cosine < 1
    assert document.rows_of_split[0] == 24 < document.rows_of_split[1]


def test_answers_that_depend_on_the_batch(document):
    dynamic = document.rows[1]
    for way in WAYS:
        assert dynamic.ways[way].difference_over_mean > 1e-3, way


def test_the_score_is_that_of_each_text_alone(document, exported_dir, data_dir):
    traffic = Traffic(data=str(data_dir), task=get_task("mrpc"))
    engine = Engine.load(exported_dir, "onnx-int8")
    tokenizer = load_tokenizer(exported_dir, engine.config)
    predicted = [
        int(engine(**tokenizer([row["sentence1"]], [row["sentence2"]], return_tensors="pt")).logits.argmax())
        for row in traffic.rows.select(range(24))
    ]
    expected = accuracy_score(traffic.rows["label"][:24], predicted)
    assert document.rows[0].score == pytest.approx(100 * expected)
    assert numpy.isfinite(document.rows[0].cosine)
