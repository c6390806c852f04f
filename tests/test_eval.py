"""Metrics against scikit-learn and scipy, targets, the order of measurements, the join and the documents."""

import csv
import json
import os
from html.parser import HTMLParser
from pathlib import Path

import numpy
import pytest
import sklearn.metrics
import torch
import yaml
from transformers import AutoTokenizer

from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.eval.inference import predict
from hf_albert_plus.eval.latency import bench_targets
from hf_albert_plus.eval.presentation import main_grid, notes, records, summary
from hf_albert_plus.eval.report import report
from hf_albert_plus.eval.score import score_targets
from hf_albert_plus.eval.shapes import Shape, parse_shapes
from hf_albert_plus.eval.table import NOT_MEASURED, build_table
from hf_albert_plus.eval.targets import parse_target, parse_targets
from hf_albert_plus.export.batching import token_batches
from hf_albert_plus.export.engines import Engine
from hf_albert_plus.files import write_json
from hf_albert_plus.glue import encode, get_task, load_split


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
    assert torch_row["runs"][0]["architecture_sha256"] == onnx_row["runs"][0]["architecture_sha256"]
    assert torch_row["runs"][0]["model_sha256"] != onnx_row["runs"][0]["model_sha256"]
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


@pytest.fixture(scope="module")
def documents(exported_dir, data_dir):
    """A score and a latency document of the same three rows."""
    texts = [f"small={exported_dir}", f"small={exported_dir}:onnx", f"small={exported_dir}:onnx-int8"]
    targets = parse_targets(texts)
    scores = score_targets(targets, data=str(data_dir), task=get_task("sst2"), max_length=32)
    timing = bench_targets(targets, shapes=parse_shapes("1x8,2x16"), baseline=targets[0], seconds=0.05)
    return scores, timing


def test_a_row_has_its_sizes_and_figures(documents):
    _, timing = documents
    base = timing["rows"][0]["loads"]["1x8"]
    assert base["speedup"] == 1.0
    model = Engine.load(timing["rows"][0]["directory"]).model
    for row in timing["rows"]:
        cell = row["loads"]["1x8"]
        samples = [value for block in cell["rounds"] for value in block]
        assert cell["p50_ms"] == pytest.approx(numpy.median(samples), abs=1e-3)
        assert cell["p99_ms"] == pytest.approx(numpy.percentile(samples, 99), abs=1e-3)
        assert cell["samples"] == len(samples) >= 2 * 4
        assert cell["flops"] == base["flops"] > 0
        assert 0 < cell["attained"] < 1
        assert row["parameters"] == model.num_parameters()
        assert row["load_ms"] > 0
        assert row["peak_rss_mb"] > row["load_mb"] > 0
    assert (
        timing["rows"][1]["file_bytes"] == (Path(timing["rows"][1]["directory"]) / "onnx" / "model.onnx").stat().st_size
    )
    assert set(timing["ceilings"]) == {"fp32", "bf16", "int8"}
    facts = timing["environment"]
    assert facts["affinity"] == sorted(os.sched_getaffinity(0))
    assert {"governor", "load_average", "load_average_after", "features", "versions"} <= set(facts)


def test_effective_parameters_are_those_of_the_unshared_twin(classifier_dir):
    """The same model with a block of its own for every layer has as many parameters as the shared one calls."""
    import hf_albert_plus
    from hf_albert_plus.eval.arithmetic import Arithmetic
    from tests.conftest import small_config

    for fields in ({}, {"attention_sharing": 2, "ffn_sharing": "none"}, {"num_feedforward_networks": 2}):
        shared, unshared = (
            hf_albert_plus.AlbertPlusForSequenceClassification(small_config(**{**fields, **maps}))
            for maps in ({}, {"attention_sharing": "none", "ffn_sharing": "none"})
        )
        shared.config.architectures = ["AlbertPlusForSequenceClassification"]
        found = Arithmetic(shared.config)
        assert found.parameters == shared.num_parameters()
        assert found.effective_parameters == unshared.num_parameters()
        assert sum(stored for stored, _ in found.parts.values()) == shared.num_parameters()


def test_flops_are_the_products_counted_by_hand():
    from transformers import BertConfig

    from hf_albert_plus.eval.arithmetic import Arithmetic

    config = BertConfig(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, vocab_size=99,
                        num_labels=2, architectures=["BertForSequenceClassification"])  # fmt: skip
    n, h, f = 10, 32, 64
    layer = 4 * n * h * h + 2 * n * n * h + 2 * n * h * f
    expected = 2 * (3 * layer + h * h + h * 2)
    assert Arithmetic(config).flops(Shape(5, n)) == 5 * expected


def test_the_join(documents):
    scores, timing = documents
    table = build_table([scores], timing)
    assert table.baseline == table.rows[0].label == "small torch fp32"
    assert [row.label for row in table.rows] == ["small torch fp32", "small onnx fp32", "small onnx int8"]
    assert summary(table)[0][:4] == ["model", "parameters", "file MB", "sst2 accuracy"]
    first = records(table)[0]
    assert first["1x8 speedup"] == "1.00x"
    assert first["sst2 accuracy"] == f"{scores['rows'][0]['metrics']['accuracy']:.1f}"
    assert table.rows[1].scores["sst2"]["difference"]["verdict"] == "within noise"


def test_the_join_is_by_the_file_not_by_the_name(documents):
    """A score under another name belongs to the timing of the same file on the same runtime."""
    scores, timing = documents
    renamed = {
        **scores,
        "rows": [{**row, "label": f"other {row['runtime']}", "name": "other"} for row in scores["rows"]],
    }
    table = build_table([renamed], timing)
    assert [(row.label, row.score("sst2")) for row in table.rows] == [
        (row["label"], row["metrics"]["accuracy"]) for row in scores["rows"]
    ]
    assert all(row.untimed == () for row in table.rows)


def test_a_model_of_the_same_architecture_stands_for_one_that_was_not_timed(documents):
    scores, timing = documents
    elsewhere = _with_runs(scores, model_sha256="0", directory="/another/seed")
    rows = build_table([elsewhere], timing).rows
    assert {row.untimed for row in rows} == {("sst2",)}
    assert any(
        "models of sst2 were not timed themselves" in line for line in notes(build_table([elsewhere], timing), [], "")
    )
    assert [row.score("sst2") for row in rows] == [row["metrics"]["accuracy"] for row in scores["rows"]]


def test_what_was_not_measured_says_so(documents):
    scores, timing = documents
    fewer_scores = {**scores, "rows": scores["rows"][:2]}
    fewer_timings = {**timing, "rows": [timing["rows"][0], timing["rows"][2]]}
    rows = {row["model"]: row for row in records(build_table([fewer_scores], fewer_timings))}
    assert rows["small onnx int8"]["sst2 accuracy"] == NOT_MEASURED
    assert rows["small onnx fp32"]["1x8 p50 ms"] == NOT_MEASURED


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, t: (t, t), "albert-plus eval --json, got a file of kind 'latency'"),
        (lambda s, t: (s, s), "albert-plus bench --json, got a file of kind 'scores'"),
        (lambda s, t: ({**s, "format": 1}, t), "format 2, got one of format 1, from another version; measure again"),
        (
            lambda s, t: ({**s, "environment": {**s["environment"], "processor": "other"}}, t),
            "one kind of machine, got .*other",
        ),
        (
            lambda s, t: ({**s, "environment": {**s["environment"], "threads": 64}}, t),
            "one kind of machine, got .*64 threads",
        ),
        (lambda s, t: (_with_runs(s, model_sha256="0", architecture_sha256="0"), t), "one architecture"),
        (lambda s, t: (_with_runs(s, model_sha256="0"), t), "changed between the two"),
        (
            lambda s, t: (s, {**t, "traffic": {"task": "sst2", "data": {"path": "p", "sha256": "0"}}}),
            "of one data set, got 0 for sst2",
        ),
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


@pytest.mark.parametrize(
    ("allowed", "change", "words"),
    [
        (
            "machines",
            lambda s: {**s, "environment": {**s["environment"], "threads": 64}},
            "measured on different machines",
        ),
        ("data", lambda s: {**s, "max_length": 9, "rows": []}, "sst2 of more than one length: 32, 9"),
        ("data", lambda s: {**s, "data": {"path": "p", "sha256": "1"}, "rows": []}, "sst2 of more than one data set"),
    ],
)
def test_what_differs_is_joined_on_request_and_said(documents, allowed, change, words):
    scores, timing = documents
    both = [change(scores)] if allowed == "machines" else [scores, change(scores)]
    with pytest.raises(InvalidInput, match=f"--allow-different {allowed}"):
        build_table(both, timing)
    table = build_table(both, timing, allow_different=(allowed,))
    assert any(words in line for line in notes(table, both, "toy"))


def test_an_unknown_difference_is_refused(documents):
    with pytest.raises(InvalidInput, match="must be machines or data, got 'machine'"):
        build_table([documents[0]], documents[1], allow_different=("machine",))


def _with_runs(document, **fields):
    rows = [{**row, "runs": [{**run, **fields} for run in row["runs"]]} for row in document["rows"]]
    return {**document, "rows": rows}


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
    assert content["latency"]["rows"][0]["loads"]["1x8"]["rounds"] == timing["rows"][0]["loads"]["1x8"]["rounds"]
    cells = main_grid(build_table([scores], timing))[1][2]
    markdown = (out / "report.md").read_text()
    assert " | ".join(cells) in markdown
    html = (out / "report.html").read_text()
    page = _Tags()
    page.feed(html)
    assert all(value in page.cells for value in cells)
    assert page.sources == []
    assert "<b>title</b>" not in html
    figures = {path.stem for path in (out / "figures").glob("*.svg")}
    assert figures == {"frontier-1x8", "frontier-2x16", "latency-1x8", "latency-2x16", "score-sst2"}
    assert html.count("<svg") == len(figures)
    for number, row in enumerate(timing["rows"], start=1):
        for name in figures:
            label = f"{number} {row['label']}" if name.startswith("frontier") else row["label"]
            assert f">{label}</text>" in (out / "figures" / f"{name}.svg").read_text()
    lines = list(csv.DictReader((out / "report.csv").read_text().splitlines()))
    figure = {(line["model"], line["on"], line["figure"]): line for line in lines}
    for row in timing["rows"]:
        cell = row["loads"]["2x16"]
        assert float(figure[row["label"], "2x16", "p99_ms"]["value"]) == cell["p99_ms"]
        line = figure[row["label"], "2x16", "speedup"]
        assert [float(line["low"]), float(line["high"])] == cell["speedup_interval"]
    line = figure["small onnx fp32", "sst2", "accuracy"]
    assert [float(line["low"]), float(line["high"])] == scores["rows"][1]["intervals"]["accuracy"]


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
    assert "layer         1  2  3  4\nattention     A  A  A  A\nfeed-forward  A  A  A  A\n" in body
    assert f"| all | {timing['rows'][0]['parameters']:,} | {timing['rows'][0]['effective_parameters']:,} |" in body
    assert "## Training\n\nnot measured" in body
    for row in records(build_table([scores], timing)):
        assert f"| {row['model']} | " in body


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": {"path": "other", "sha256": "1"}}, "of one data set, got 1 for sst2 and "),
        ({"max_length": 9}, "of one length, got 32 for sst2 and 9 for sst2"),
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
        rows = [
            {
                **row,
                "task": task,
                "metrics": {get_task(task).metrics[0]: row["metrics"]["accuracy"]},
                "intervals": {get_task(task).metrics[0]: row["intervals"]["accuracy"]},
            }
            for row in scores["rows"]
        ]
        write_json(path, {**scores, "task": task, "references": {task: scores["references"]["sst2"]}, "rows": rows})
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
