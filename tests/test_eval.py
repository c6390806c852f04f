"""Metrics against scikit-learn and scipy, targets, the order of measurements, the join and the documents."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy
import pytest
import scipy.stats
import sklearn.metrics
import torch
import yaml
from transformers import AutoTokenizer

from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.eval import latency as latency_module
from hf_albert_plus.eval.latency import BLOCKS, Shape, bench_targets, parse_shapes
from hf_albert_plus.eval.metrics import compute_metrics
from hf_albert_plus.eval.report import report, table_json
from hf_albert_plus.eval.score import predict, score_targets
from hf_albert_plus.eval.table import NOT_MEASURED, build_table
from hf_albert_plus.eval.targets import parse_target, parse_targets
from hf_albert_plus.export.batching import token_batches
from hf_albert_plus.export.engines import Engine
from hf_albert_plus.glue import encode, get_task, load_split
from hf_albert_plus.records import write_json


def _logits(classes):
    return numpy.eye(max(classes) + 2)[list(classes)]


def test_classification_metrics():
    labels, predicted = numpy.array([0, 1, 1, 0, 1, 1]), [0, 1, 0, 1, 1, 1]
    assert compute_metrics(_logits(predicted), labels, get_task("mrpc")) == {
        "accuracy": pytest.approx(400 / 6), "f1": pytest.approx(100 * 2 * 3 / (2 * 3 + 1 + 1)),
    }  # fmt: skip
    # tp 3, tn 1, fp 1, fn 1: (3·1 - 1·1) / sqrt(4·4·2·2) = 2 / 8
    assert compute_metrics(_logits(predicted), labels, get_task("cola")) == {"matthews": pytest.approx(25.0)}
    assert sklearn.metrics.matthews_corrcoef(labels, predicted) == pytest.approx(0.25)


def test_regression_metrics_with_ties():
    labels, predicted = numpy.array([0.0, 1, 1, 3, 5]), numpy.array([0.5, 0.5, 2, 2, 4])
    found = compute_metrics(predicted[:, None], labels, get_task("stsb"))
    assert found["pearson"] == pytest.approx(100 * numpy.corrcoef(predicted, labels)[0, 1])
    ranks = [scipy.stats.rankdata(values) for values in (predicted, labels)]
    assert found["spearman"] == pytest.approx(100 * numpy.corrcoef(*ranks)[0, 1])


def test_edge_cases():
    constant = numpy.ones((4, 1))
    assert compute_metrics(constant, numpy.arange(4.0), get_task("stsb")) == {"pearson": None, "spearman": None}
    one_class = _logits([0, 0, 0, 0])
    assert compute_metrics(one_class, numpy.array([0, 1, 0, 1]), get_task("cola")) == {"matthews": 0.0}
    assert compute_metrics(one_class, numpy.array([0, 1, 0, 1]), get_task("mrpc"))["f1"] == 0.0
    with pytest.raises(InvalidInput, match="needs examples"):
        compute_metrics(numpy.empty((0, 2)), numpy.empty(0), get_task("sst2"))
    with pytest.raises(InvalidInput, match="must be finite"):
        compute_metrics(numpy.array([[numpy.nan, 1]]), numpy.array([0]), get_task("sst2"))


@pytest.mark.parametrize(
    ("text", "name", "runtime"),
    [
        ("{d}", None, "torch"),
        ("{d}:onnx", None, "onnx"),
        ("{d}:onnx-int8", None, "onnx-int8"),
        ("student={d}:onnx", "student", "onnx"),
    ],
)
def test_targets(exported_dir, text, name, runtime):
    target = parse_target(text.format(d=exported_dir))
    assert (target.name, target.runtime, target.directory) == (name or exported_dir.name, runtime, exported_dir)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{d}:onx", "'onx'; did you mean 'onnx'"),
        ("/nowhere", "must be a model directory"),
        ("{d}:openvine", "use one of|did you mean"),
    ],
)
def test_wrong_targets(exported_dir, text, words):
    with pytest.raises(InvalidInput, match=words):
        parse_target(text.format(d=exported_dir))


def test_targets_must_be_told_apart(exported_dir, tmp_path):
    with pytest.raises(InvalidInput, match="different labels, got 'model onnx fp32' twice"):
        parse_targets([f"{exported_dir}:onnx"] * 2)


def test_a_path_with_a_colon_is_a_path(exported_dir, tmp_path):
    import shutil

    shutil.copytree(exported_dir, tmp_path / "v1:onnx")
    assert parse_target(str(tmp_path / "v1:onnx")).runtime == "torch"


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_predictions_keep_the_order_of_the_rows(exported_dir, data_dir, runtime):
    """Batched by length or one at a time: the same logits for the same row."""
    task = get_task("sst2")
    engine = Engine.load(exported_dir, runtime)
    tokenizer = AutoTokenizer.from_pretrained(exported_dir)
    encoded = encode(load_split(str(data_dir), task, "validation"), task, tokenizer, max_length=32)
    batched = predict(engine, encoded.to_list(), tokenizer, token_batches(encoded["length"], budget=70))
    for i in (0, 5, 17, 47):
        inputs = {name: torch.tensor([encoded[i][name]]) for name in ("input_ids", "attention_mask", "token_type_ids")}
        numpy.testing.assert_allclose(batched[i], engine(**inputs).logits[0], atol=1e-5)


def test_scores_are_those_of_scikit_learn(exported_dir, data_dir):
    task = get_task("sst2")
    document = score_targets(
        parse_targets([str(exported_dir), f"{exported_dir}:onnx"]), data=str(data_dir), task=task, max_length=32
    )
    torch_row, onnx_row = document["rows"]
    assert torch_row["metrics"] == onnx_row["metrics"]
    assert torch_row["architecture_sha256"] == onnx_row["architecture_sha256"]
    assert torch_row["model_sha256"] != onnx_row["model_sha256"]
    rows = load_split(str(data_dir), task, "validation")
    engine, tokenizer = Engine.load(exported_dir), AutoTokenizer.from_pretrained(exported_dir)
    logits = engine(**tokenizer(rows["sentence"][:], padding=True, return_tensors="pt")).logits
    assert torch_row["metrics"]["accuracy"] == pytest.approx(
        100 * sklearn.metrics.accuracy_score(rows["label"][:], logits.argmax(-1))
    )


def test_a_model_of_another_task_is_refused(exported_dir, data_dir):
    with pytest.raises(InvalidInput, match="stsb must have 1 labels, got .* with 2 in"):
        score_targets(parse_targets([str(exported_dir)]), data=str(data_dir), task=get_task("stsb"), max_length=32)


@pytest.mark.parametrize(("text", "shapes"), [("1x16", [Shape(1, 16)]), ("1x16, 8x128", [Shape(1, 16), Shape(8, 128)])])
def test_shapes(text, shapes):
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize("text", ["", "16", "0x16", "1x16,", "ax3", "1X16"])
def test_wrong_shapes(text):
    with pytest.raises(InvalidInput, match="use --shapes 1x16,1x128,8x128"):
        parse_shapes(text)


def test_blocks_interleave_and_take_turns(exported_dir, monkeypatch):
    """Within a round every target runs once, each round starts with the next one, and each block has a call that is not
    counted."""
    order = []
    plain = Engine.load

    def load(directory, runtime="torch", *, threads=None):
        engine = plain(directory, runtime, threads=threads)
        return lambda_engine(engine, runtime)

    class lambda_engine:  # noqa: N801
        def __init__(self, engine, runtime):
            self.config, self.inputs, self.file, self.runtime = engine.config, engine.inputs, engine.file, runtime

        def __call__(self, **tensors):
            order.append((self.runtime, tuple(tensors["input_ids"].shape)))

    monkeypatch.setattr(Engine, "load", staticmethod(load))
    monkeypatch.setattr(latency_module, "_calls_a_block", lambda *args, **kwargs: 3)
    targets = parse_targets([str(exported_dir), f"{exported_dir}:onnx", f"{exported_dir}:onnx-int8"])
    document = bench_targets(targets, shapes=[Shape(2, 8)], baseline=targets[0])
    assert set(order) == {(runtime, (2, 8)) for runtime in ("torch", "onnx", "onnx-int8")}
    blocks = [order[i : i + 4] for i in range(0, len(order), 4)]
    assert all(len({call[0] for call in block}) == 1 for block in blocks)
    names = [block[0][0] for block in blocks]
    runtimes = ["torch", "onnx", "onnx-int8"]
    expected = [runtimes[(turn + i) % 3] for turn in range(BLOCKS) for i in range(3)]
    assert names == expected
    for row in document["rows"]:
        assert len(row["shapes"]["2x8"]["samples_ms"]) == 3 * BLOCKS


@pytest.fixture(scope="module")
def documents(exported_dir, data_dir):
    """A score and a latency document of the same three rows."""
    texts = [f"small={exported_dir}", f"small={exported_dir}:onnx", f"small={exported_dir}:onnx-int8"]
    targets = parse_targets(texts)
    scores = score_targets(targets, data=str(data_dir), task=get_task("sst2"), max_length=32)
    timing = bench_targets(targets, shapes=parse_shapes("1x8,2x16"), baseline=targets[0], seconds=0.05)
    return scores, timing


def test_percentiles_and_speedup_come_from_the_samples(documents):
    _, timing = documents
    base = timing["rows"][0]["shapes"]["1x8"]
    for row in timing["rows"]:
        cell = row["shapes"]["1x8"]
        assert cell["p50_ms"] == pytest.approx(numpy.median(cell["samples_ms"]), abs=1e-3)
        assert cell["p95_ms"] == pytest.approx(numpy.percentile(cell["samples_ms"], 95), abs=1e-3)
        assert cell["speedup"] == pytest.approx(base["p50_ms"] / cell["p50_ms"], rel=0.02, abs=1e-3)
    assert base["speedup"] == 1.0
    model = Engine.load(timing["rows"][0]["directory"]).model
    assert {row["parameters"] for row in timing["rows"]} == {model.num_parameters()}
    assert (
        timing["rows"][1]["file_bytes"] == (Path(timing["rows"][1]["directory"]) / "onnx" / "model.onnx").stat().st_size
    )


def test_the_join(documents):
    scores, timing = documents
    table = build_table([scores], timing)
    assert table.baseline == table.rows[0].label == "small torch fp32"
    assert [row.label for row in table.rows] == ["small torch fp32", "small onnx fp32", "small onnx int8"]
    assert table.header()[:4] == ["model", "parameters", "file MB", "sst2 accuracy"]
    first = table_json(table)[0]
    assert first["1x8 speedup"] == "1.00x"
    assert first["sst2 accuracy"] == f"{scores['rows'][0]['metrics']['accuracy']:.1f}"


def test_what_was_not_measured_says_so(documents):
    scores, timing = documents
    fewer_scores = {**scores, "rows": scores["rows"][:2]}
    fewer_timings = {**timing, "rows": [timing["rows"][0], timing["rows"][2]]}
    rows = {row["model"]: row for row in table_json(build_table([fewer_scores], fewer_timings))}
    assert rows["small onnx int8"]["sst2 accuracy"] == NOT_MEASURED
    assert rows["small onnx fp32"]["1x8 p50 ms"] == NOT_MEASURED


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, t: (t, t), "albert-plus eval --json, got a file of kind 'latency'"),
        (lambda s, t: (s, s), "albert-plus bench --json, got a file of kind 'scores'"),
        (
            lambda s, t: ({**s, "environment": {**s["environment"], "processor": "other"}}, t),
            "one kind of machine, got .*other",
        ),
        (
            lambda s, t: ({**s, "environment": {**s["environment"], "threads": 64}}, t),
            "one kind of machine, got .*64 threads",
        ),
        (lambda s, t: (_with(s, architecture_sha256="0"), t), "one architecture"),
        (lambda s, t: (_with(s, model_sha256="0"), t), "changed between the two"),
    ],
)
def test_what_does_not_belong_together_is_refused(documents, change, words):
    scores, timing = change(*documents)
    with pytest.raises(InvalidInput, match=words):
        build_table([scores], timing)


def test_one_score_a_task_and_label(documents):
    scores, timing = documents
    with pytest.raises(InvalidInput, match="one score a task"):
        build_table([scores, scores], timing)


def _with(document, **fields):
    return {**document, "rows": [{**row, **fields} for row in document["rows"]]}


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.cells, self.sources = 0, [], []

    def handle_starttag(self, tag, attributes):
        self.rows += tag == "tr"
        self.sources += [
            value for name, value in attributes if name in ("src", "href") and not (value or "").startswith("#")
        ]

    def handle_data(self, data):
        self.cells.append(data)


def test_the_report_directory(documents, tmp_path):
    scores, timing = documents
    write_json(tmp_path / "scores.json", scores)
    write_json(tmp_path / "bench.json", timing)
    out = tmp_path / "report"
    report(
        [tmp_path / "scores.json"],
        bench=tmp_path / "bench.json",
        output=out,
        title="A <b>title</b>",
        data_name="toy data",
    )
    content = json.loads((out / "report.json").read_text())
    assert (
        content["latency"]["rows"][0]["shapes"]["1x8"]["samples_ms"] == timing["rows"][0]["shapes"]["1x8"]["samples_ms"]
    )
    cells = content["table"][2]
    markdown = (out / "report.md").read_text()
    assert " | ".join(cells.values()) in markdown
    html = (out / "report.html").read_text()
    page = _Tags()
    page.feed(html)
    assert all(value in page.cells for value in cells.values())
    assert page.sources == []
    assert "<b>title</b>" not in html
    assert "<svg" in html
    drawn = (out / "score_latency.svg").read_text()
    for row in timing["rows"]:
        assert f"<!-- {row['label']} -->" in drawn


def test_the_card(documents, tmp_path):
    scores, timing = documents
    write_json(tmp_path / "scores.json", scores)
    write_json(tmp_path / "bench.json", timing)
    report(
        [tmp_path / "scores.json"],
        bench=tmp_path / "bench.json",
        output=tmp_path / "r",
        title="t",
        data_name="toy/data",
    )
    card = (tmp_path / "r" / "cards" / "small-sst2.md").read_text()
    _, head, body = card.split("---\n", 2)
    metadata = yaml.safe_load(head)
    result = metadata["model-index"][0]["results"][0]
    accuracy = scores["rows"][0]["metrics"]["accuracy"]
    assert result["dataset"]["config"] == "sst2"
    assert result["metrics"][0]["type"] == "accuracy"
    assert result["metrics"][0]["value"] == pytest.approx(accuracy / 100, abs=1e-4)
    assert metadata["library_name"] == "transformers"
    assert "`[0, 0, 0, 0]`" in body
    assert "## Training\n\nnot measured" in body
    for row in table_json(build_table([scores], timing)):
        assert f"| {row['model']} | " in body


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": {"path": "other", "sha256": "1"}}, "one data set, got .* and 1 for sst2"),
        ({"max_length": 9}, "one length, got .*9"),
    ],
)
def test_scores_of_a_task_are_of_one_data_set_and_length(documents, change, words):
    scores, timing = documents
    other = {**scores, **change, "rows": []}
    with pytest.raises(InvalidInput, match=words):
        build_table([scores, other], timing)


def test_a_report_is_remade_when_any_of_its_scores_changes(documents, tmp_path):
    scores, timing = documents
    write_json(tmp_path / "bench.json", timing)
    paths = []
    for task in ("cola", "sst2"):
        path = tmp_path / task / "scores.json"
        write_json(path, {**scores, "task": task, "rows": [{**row, "task": task} for row in scores["rows"]]})
        paths.append(path)
    options = {"bench": tmp_path / "bench.json", "output": tmp_path / "r", "title": "t", "data_name": "d"}
    report(paths, **options)
    assert report(paths, **options).reused
    changed = json.loads(paths[0].read_text())
    changed["rows"][0]["metrics"] = {"matthews": 12.0}
    write_json(paths[0], changed)
    with pytest.raises(StageConflict, match="scores 0"):
        report(paths, **options)


def test_a_path_with_an_equals_sign_is_a_path(exported_dir, tmp_path):
    import shutil

    shutil.copytree(exported_dir, tmp_path / "lr=3e-4" / "student")
    target = parse_target(f"{tmp_path}/lr=3e-4/student:onnx")
    assert (target.name, target.runtime) == ("student", "onnx")


def test_labels_in_another_order_are_refused(exported_dir, data_dir, tmp_path):
    import shutil

    copy = shutil.copytree(exported_dir, tmp_path / "m")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "id2label": {"0": "POSITIVE", "1": "NEGATIVE"}}))
    with pytest.raises(InvalidInput, match="number the labels of sst2 as negative, positive, got positive, negative"):
        score_targets(parse_targets([f"{copy}:onnx"]), data=str(data_dir), task=get_task("sst2"), max_length=32)


def test_a_length_beyond_the_positions_is_refused_before_scoring(exported_dir, data_dir):
    with pytest.raises(InvalidInput, match="the model's 64 positions, got 128"):
        score_targets(parse_targets([str(exported_dir)]), data=str(data_dir), task=get_task("sst2"), max_length=128)
