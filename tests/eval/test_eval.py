"""Metrics against scikit-learn and scipy, targets, the order of measurements, the join and the documents."""

import csv
import json
import os
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy
import pytest
import sklearn.metrics
import torch
import yaml
from transformers import AutoTokenizer

from hf_albert_plus.engines.batch_plans import token_batches
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.eval.batched_inference import predict
from hf_albert_plus.eval.latency.bench import bench_targets
from hf_albert_plus.eval.measured_documents import TrafficSource, read_latency, read_scores, to_json
from hf_albert_plus.eval.reporting.presentation import difference_grid, main_grid, notes, records, summary
from hf_albert_plus.eval.reporting.stage import report
from hf_albert_plus.eval.reporting.table import NOT_MEASURED, build_table
from hf_albert_plus.eval.scoring import score_targets
from hf_albert_plus.eval.settings import BenchSettings, EvalSettings
from hf_albert_plus.eval.targets import Shape, parse_shapes, parse_target, parse_targets
from hf_albert_plus.records.files import write_json
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import encode
from hf_albert_plus.tasks.splits import load_split
from tests.support.benches import shortened_benches

SETTINGS = EvalSettings(max_length=32)


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
        parse_targets([str(exported_dir), f"{exported_dir}:onnx"]), data=str(data_dir), task=task, settings=SETTINGS
    )
    torch_row, onnx_row = document.rows
    assert torch_row.metrics == onnx_row.metrics
    assert torch_row.runs[0].architecture_sha256 == onnx_row.runs[0].architecture_sha256
    assert torch_row.runs[0].model_sha256 != onnx_row.runs[0].model_sha256
    rows = load_split(str(data_dir), task, "validation")
    engine, tokenizer = Engine.load(exported_dir), AutoTokenizer.from_pretrained(exported_dir)
    logits = engine(**tokenizer(rows["sentence"][:], padding=True, return_tensors="pt")).logits
    assert torch_row.metrics["accuracy"] == pytest.approx(
        100 * sklearn.metrics.accuracy_score(rows["label"][:], logits.argmax(-1))
    )


def test_a_model_of_another_task_is_refused(exported_dir, data_dir):
    with pytest.raises(InvalidInput, match="stsb must have 1 labels, got .* with 2 in"):
        score_targets(parse_targets([str(exported_dir)]), data=str(data_dir), task=get_task("stsb"), settings=SETTINGS)


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
    scores = score_targets(targets, data=str(data_dir), task=get_task("sst2"), settings=SETTINGS)
    with shortened_benches():
        timing = bench_targets(
            targets, shapes=parse_shapes("1x8,2x16"), baseline=targets[0], settings=BenchSettings(seconds=0.05)
        )
    return scores, timing


@pytest.mark.slow
def test_a_row_has_its_sizes_and_figures(documents):
    _, timing = documents
    base = timing.rows[0].loads["1x8"]
    assert base.speedup == 1.0
    model = Engine.load(timing.rows[0].directory).model
    for row in timing.rows:
        cell = row.loads["1x8"]
        samples = [value for block in cell.rounds for value in block]
        assert cell.p50_ms == pytest.approx(numpy.median(samples), abs=1e-3)
        assert cell.p99_ms == pytest.approx(numpy.percentile(samples, 99), abs=1e-3)
        assert cell.samples == len(samples) >= 2 * 4
        assert cell.flops == base.flops > 0
        assert 0 < cell.attained < 1
        assert row.parameters == model.num_parameters()
        assert row.load_ms > 0
        assert row.peak_rss_mb > row.load_mb > 0
    assert timing.rows[1].file_bytes == (Path(timing.rows[1].directory) / "onnx" / "model.onnx").stat().st_size
    # A processor that emulates bf16 has no ceiling of it.
    assert {"fp32", "int8"} <= set(timing.ceilings) <= {"fp32", "bf16", "int8"}
    facts = to_json(timing.environment)
    assert facts["affinity"] == sorted(os.sched_getaffinity(0))
    assert {"governor", "load_average", "load_average_after", "features", "versions"} <= set(facts)


def test_effective_parameters_are_those_of_the_unshared_twin(classifier_dir):
    """The same model with a block of its own for every layer has as many parameters as the shared one calls."""
    import hf_albert_plus
    from hf_albert_plus.eval.latency.costs import Arithmetic
    from tests.support.small_models import small_config

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

    from hf_albert_plus.eval.latency.costs import Arithmetic

    config = BertConfig(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, vocab_size=99,
                        num_labels=2, architectures=["BertForSequenceClassification"])  # fmt: skip
    n, h, f = 10, 32, 64
    layer = 4 * n * h * h + 2 * n * n * h + 2 * n * h * f
    expected = 2 * (3 * layer + h * h + h * 2)
    assert Arithmetic(config).flops(Shape(5, n)) == 5 * expected


def test_documents_are_read_as_they_were_written(documents, tmp_path):
    for document, read in zip(documents, (read_scores, read_latency), strict=True):
        write_json(tmp_path / "document.json", to_json(document))
        again = read(tmp_path / "document.json")
        assert again == document
        assert json.dumps(to_json(again)) == json.dumps(to_json(document))


def test_the_join(documents):
    scores, timing = documents
    table = build_table([scores], timing)
    assert table.baseline == table.rows[0].label == "small torch fp32"
    assert [row.label for row in table.rows] == ["small torch fp32", "small onnx fp32", "small onnx int8"]
    # What the table is for stands beside the names, the scores after it.
    assert summary(table)[0] == [
        "model", "parameters", "file MB", "1x8 speedup", "2x16 speedup", "1x8 p50 ms", "2x16 p50 ms", "sst2 accuracy",
    ]  # fmt: skip
    assert main_grid(table)[0] == [
        "model", "parameters", "file MB", "1x8 speedup", "2x16 speedup", "1x8 p50 ms", "1x8 p99 ms", "2x16 p50 ms", "2x16 p99 ms",
        "sst2 accuracy",
    ]  # fmt: skip
    first = records(table)[0]
    assert first["1x8 speedup"] == "1.00x"
    assert first["sst2 accuracy"] == f"{scores.rows[0].metrics['accuracy']:.1f}"
    assert table.rows[1].differences["sst2"].verdict == "within noise"
    assert [line[1] for line in difference_grid(table)[1]][:2] == ["baseline", "+0.0, within noise"]


def test_the_join_is_by_the_file_not_by_the_name(documents):
    """A score under another name belongs to the timing of the same file on the same runtime."""
    scores, timing = documents
    renamed = replace(scores, rows=[replace(row, label=f"other {row.runtime}", name="other") for row in scores.rows])
    table = build_table([renamed], timing)
    assert [(row.label, row.score("sst2")) for row in table.rows] == [
        (row.label, row.metrics["accuracy"]) for row in scores.rows
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
    assert [row.score("sst2") for row in rows] == [row.metrics["accuracy"] for row in scores.rows]


def test_what_is_so_of_every_task_is_said_once(documents):
    scores, timing = documents
    both = [
        _with_runs(_of_task(scores, task), model_sha256="0", directory="/another/seed") for task in ("cola", "sst2")
    ]
    lines = notes(build_table(both, timing), both, "toy")
    (untimed,) = [line for line in lines if "not timed themselves" in line]
    assert "The models of cola, sst2 were" in untimed
    (sizes,) = [line for line in lines if "that GLUE has" in line]
    assert (
        sizes == "Rows that were scored, of those that GLUE has: cola validation 48 of 872, sst2 validation 48 of 872."
    )


def test_what_was_not_measured_says_so(documents):
    scores, timing = documents
    fewer_scores = replace(scores, rows=scores.rows[:2])
    fewer_timings = replace(timing, rows=[timing.rows[0], timing.rows[2]])
    rows = {row["model"]: row for row in records(build_table([fewer_scores], fewer_timings))}
    assert rows["small onnx int8"]["sst2 accuracy"] == NOT_MEASURED
    assert rows["small onnx fp32"]["1x8 p50 ms"] == NOT_MEASURED


@pytest.mark.parametrize(
    ("read", "change", "words"),
    [
        (read_scores, {"kind": "latency"}, "albert-plus eval --json, got a file of kind 'latency'"),
        (read_latency, {"kind": "scores"}, "albert-plus bench --json, got a file of kind 'scores'"),
        (read_scores, {"format": 1}, "format 2, got one of format 1, from another version; measure again"),
    ],
)
def test_documents_of_another_kind_or_version_are_refused(documents, read, change, words, tmp_path):
    document = documents[0] if read is read_scores else documents[1]
    write_json(tmp_path / "document.json", to_json(document) | change)
    with pytest.raises(InvalidInput, match=words):
        read(tmp_path / "document.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda s, t: (replace(s, environment=replace(s.environment, processor="other")), t),
            "one kind of machine, got .*other",
        ),
        (
            lambda s, t: (replace(s, environment=replace(s.environment, threads=64)), t),
            "one kind of machine, got .*64 threads",
        ),
        (lambda s, t: (_with_runs(s, model_sha256="0", architecture_sha256="0"), t), "one architecture"),
        (lambda s, t: (_with_runs(s, model_sha256="0"), t), "changed between the two"),
        (
            lambda s, t: (s, replace(t, traffic=TrafficSource(task="sst2", data={"path": "p", "sha256": "0"}))),
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
            lambda s: replace(s, environment=replace(s.environment, threads=64)),
            "measured on different machines",
        ),
        ("data", lambda s: replace(s, max_length=9, rows=[]), "sst2 of more than one length: 32, 9"),
        ("data", lambda s: replace(s, data={"path": "p", "sha256": "1"}, rows=[]), "sst2 of more than one data set"),
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
    rows = [replace(row, runs=[replace(run, **fields) for run in row.runs]) for row in document.rows]
    return replace(document, rows=rows)


def _of_task(scores, task):
    """The scores of sst2 as if they were another task's of one metric."""
    metric = get_task(task).metrics[0]
    rows = [
        replace(
            row, task=task, metrics={metric: row.metrics["accuracy"]}, intervals={metric: row.intervals["accuracy"]}
        )
        for row in scores.rows
    ]
    return replace(scores, task=task, references={task: scores.references["sst2"]}, rows=rows)


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
    write_json(tmp_path / "scores.json", to_json(scores))
    write_json(tmp_path / "bench.json", to_json(timing))
    out = tmp_path / "report"
    report(
        [tmp_path / "scores.json"],
        bench=tmp_path / "bench.json",
        output=out,
        title="A <b>title</b>",
        data_name="toy data",
    )
    content = json.loads((out / "report.json").read_text())
    assert content == {
        "table": records(build_table([scores], timing)),
        "scores": [to_json(scores)],
        "latency": to_json(timing),
    }
    cells = main_grid(build_table([scores], timing))[1][2]
    differences = difference_grid(build_table([scores], timing))[1][2]
    markdown = (out / "report.md").read_text()
    assert " | ".join(cells) in markdown
    assert " | ".join(differences) in markdown.split("## Scores against the baseline")[1]
    html = (out / "report.html").read_text()
    page = _Tags()
    page.feed(html)
    assert all(value in page.cells for value in (*cells, *differences))
    assert "<details><summary>Scores against the baseline</summary>" in html  # folded away
    assert page.sources == []
    assert "<b>title</b>" not in html
    figures = {path.stem for path in (out / "figures").glob("*.svg")}
    assert figures == {"frontier-1x8", "frontier-2x16", "frontier-MB", "latency-1x8", "latency-2x16", "score-sst2"}
    assert html.count("<svg") == len(figures)
    for number, row in enumerate(timing.rows, start=1):
        for name in figures:
            label = f"{number} {row.label}" if name.startswith("frontier") else row.label
            assert f">{label}</text>" in (out / "figures" / f"{name}.svg").read_text()
    lines = list(csv.DictReader((out / "report.csv").read_text().splitlines()))
    figure = {(line["model"], line["on"], line["figure"]): line for line in lines}
    for row in timing.rows:
        cell = row.loads["2x16"]
        assert float(figure[row.label, "2x16", "p99_ms"]["value"]) == cell.p99_ms
        line = figure[row.label, "2x16", "speedup"]
        assert [float(line["low"]), float(line["high"])] == cell.speedup_interval
    line = figure["small onnx fp32", "sst2", "accuracy"]
    assert [float(line["low"]), float(line["high"])] == scores.rows[1].intervals["accuracy"]
    line = figure["small onnx fp32", "sst2", "accuracy against baseline"]
    assert [float(line["low"]), float(line["high"])] == [0.0, 0.0]


def test_the_card(documents, tmp_path):
    scores, timing = documents
    write_json(tmp_path / "scores.json", to_json(scores))
    write_json(tmp_path / "bench.json", to_json(timing))
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
    accuracy = scores.rows[0].metrics["accuracy"]
    assert result["dataset"]["config"] == "sst2"
    assert result["metrics"][0]["type"] == "accuracy"
    assert result["metrics"][0]["value"] == pytest.approx(accuracy / 100, abs=1e-4)
    assert metadata["library_name"] == "transformers"
    assert "layer         1  2  3  4\nattention     A  A  A  A\nfeed-forward  A  A  A  A\n" in body
    assert f"| all | {timing.rows[0].parameters:,} | {timing.rows[0].effective_parameters:,} |" in body
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
    other = replace(scores, **change, rows=[])
    with pytest.raises(InvalidInput, match=words):
        build_table([scores, other], timing)


def test_a_report_is_remade_when_any_of_its_scores_changes(documents, tmp_path):
    scores, timing = documents
    write_json(tmp_path / "bench.json", to_json(timing))
    paths = []
    for task in ("cola", "sst2"):
        paths.append(tmp_path / task / "scores.json")
        write_json(paths[-1], to_json(_of_task(scores, task)))
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
        score_targets(parse_targets([f"{copy}:onnx"]), data=str(data_dir), task=get_task("sst2"), settings=SETTINGS)


def test_a_length_beyond_the_positions_is_refused_before_scoring(exported_dir, data_dir):
    with pytest.raises(InvalidInput, match="the model's 64 positions, got 128"):
        score_targets(parse_targets([str(exported_dir)]), data=str(data_dir), task=get_task("sst2"))
