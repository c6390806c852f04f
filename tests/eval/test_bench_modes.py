"""The benches of peers and passes build what they say they build; memory is measured; a GPU is asked for plainly; records are kept."""

import json
from dataclasses import replace

import numpy
import pytest
from typer.testing import CliRunner

from hf_albert_plus.cli.app import app
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.eval import EvalSettings, scorer_for
from hf_albert_plus.eval.latency.peers import BASELINE, bench_peers
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.eval.measured_documents import read_scores
from hf_albert_plus.eval.predictions import write_predictions
from hf_albert_plus.eval.scoring import score_targets
from hf_albert_plus.eval.targets import Shape, parse_shapes, parse_targets
from hf_albert_plus.export.graph.tracing import PASSES
from hf_albert_plus.records.record import fingerprint, read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.splits import load_split
from tests.support.benches import shortened_benches
from tests.support.command_line import invoke


@pytest.fixture(scope="module")
def peers(classifier_dir):
    with shortened_benches():
        return bench_peers(str(classifier_dir), shapes=parse_shapes("2x8"), seconds=0.05)


@pytest.mark.slow
def test_every_way_is_built_and_counted(peers):
    assert peers.not_built == {}
    assert peers.model == "AlbertForSequenceClassification"  # transformers' own, where it computes the model
    rows = {row.label: row for row in peers.rows}
    assert set(rows) >= {
        BASELINE, "transformers eager bf16", "torch.compile fp32", "transformers.exporters onnx fp32",
        "transformers.exporters onnx int8", "quantize_dynamic", "quantize_dynamic after pre-processing", "OpenVINO",
        "OpenVINO + NNCF", "ours: onnx", "ours: onnx-int8", "ours: openvino", "ours: openvino-int8",
    }  # fmt: skip
    assert rows["ours: onnx-int8"].quantised_products == rows["ours: onnx-int8"].weight_products == 27
    assert rows["quantize_dynamic after pre-processing"].quantised_products == 27
    assert rows["quantize_dynamic"].quantised_products < 27  # weights of layers past the first lie behind Identity
    assert rows["ours: onnx-int8"].file_bytes <= min(
        rows[name].file_bytes for name in ("quantize_dynamic", "transformers.exporters onnx int8")
    )
    assert rows[BASELINE].loads["2x8"].speedup == 1.0
    assert all(row.cosine > 0.98 for row in rows.values())


@pytest.mark.slow
def test_passes_are_timed_with_and_without_each(classifier_dir, tmp_path, short_benches):
    result = CliRunner().invoke(
        app,
        [
            "bench",
            "passes",
            str(classifier_dir),
            "--shapes",
            "1x8",
            "--seconds",
            "0.02",
            "--json",
            str(tmp_path / "p.json"),
        ],
    )
    assert result.exit_code == 0, result.output
    rows = {row["label"]: row for row in json.loads((tmp_path / "p.json").read_text())["rows"]}
    for precision in ("fp32", "int8"):
        assert set(rows[f"{precision} all passes"]["passes"]) == set(PASSES)
        assert rows[f"{precision} without any"]["passes"] == {}
        for name in PASSES:
            assert name not in rows[f"{precision} without {name}"]["passes"]
        assert rows[f"{precision} with fuse_gelu too"]["passes"]["fuse_gelu"] == 4


@pytest.mark.slow
def test_loading_is_measured_in_a_process_of_its_own(exported_dir):
    from hf_albert_plus.eval.latency.costs import measure_process
    from hf_albert_plus.eval.targets import parse_target

    facts = measure_process(parse_target(f"{exported_dir}:onnx-int8"), shapes=[Shape(2, 8)], threads=1)
    assert 0 < facts.load_mb < 60
    assert facts.load_ms > 0
    assert facts.peak_rss_mb > 100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "{d}"], "a speedup needs a baseline, got no --baseline"),
        (["bench", "{d}", "--baseline", "{d}", "--task", "sst2"], "--task goes with --data, got --task sst2 alone"),
        (["bench", "{d}", "--baseline", "{d}", "--rows", "5"], "--rows goes with --data, got --rows 5 alone"),
        (["bench", "{d}", "--baseline", "{d}", "--rows", "0"], "--rows must be at least 1, got 0"),
        (["bench", "peers", "bert-tinny"], "a model directory or the name of a variant, got 'bert-tinny'"),
        (["bench", "passes", "bert-tinny"], "a model directory or the name of a variant, got 'bert-tinny'"),
        (["bench", "peers", "bert-tiny", "--shapes", "1x9999"], "must fit the 512 positions of bert-tiny"),
        (["bench", "peers", "bert-tiny", "--seconds", "0"], "--seconds must be greater than 0"),
        (["bench", "passes", "bert-tiny", "--seconds", "0"], "--seconds must be greater than 0"),
        (["bench", "self-check", "{d}", "--seconds", "0"], "--seconds must be greater than 0"),
        (["bench", "cuda", "{d}", "--seconds", "0"], "--seconds must be greater than 0"),
        (["bench", "cuda", "{d}"], "this needs an NVIDIA GPU that torch can use"),
        (
            ["eval", "{d}", "--task", "sst2", "--data", "{d}", "--batching", "lenght"],
            "length:TOKENS or file:ROWS, got 'lenght'",
        ),
    ],
)
def test_what_cannot_be_timed_is_refused(exported_dir, words, message):
    result = CliRunner().invoke(app, [word.format(d=exported_dir) for word in words])
    assert isinstance(result.exception, InvalidInput)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    "words",
    [["bench"], ["bench", "peers"], ["bench", "self-check", "{d}", "{d}:onnx"], ["bench", "cuda", "{d}", "{d}:onnx"]],
    ids=" ".join,
)
def test_a_bench_is_of_what_it_says(exported_dir, words):
    """Targets, one model, one target, one directory."""
    result = CliRunner().invoke(app, [word.format(d=exported_dir) for word in words])
    assert result.exit_code == 2
    assert "Missing argument" in result.output or "unexpected extra argument" in result.output


def test_some_rows_of_a_split_are_spread_over_it(data_dir):
    traffic = Traffic(data=str(data_dir), task=get_task("sst2"))
    sentences = list(traffic.rows["sentence"])
    assert len(sentences) > 5
    middle = {(len(sentences) - 1) // 2, len(sentences) // 2}
    first, between, last = replace(traffic, at_most=3).rows["sentence"]
    assert (first, last) == (sentences[0], sentences[-1])
    assert between in {sentences[number] for number in middle}
    assert list(replace(traffic, at_most=len(sentences) + 1).rows["sentence"]) == sentences


@pytest.mark.slow
def test_passes_are_over_the_rows_that_were_asked_for(exported_dir, data_dir, tmp_path):
    """Milliseconds of a pass times passes' sentences a second are the sentences of a pass."""
    target = f"{exported_dir}:onnx"
    words = [
        "--task",
        "sst2",
        "--data",
        str(data_dir),
        "--max-length",
        "16",
        "--scenario",
        "offline",
        "--seconds",
        "0.02",
    ]
    invoke("bench", target, "--baseline", target, *words, "--rows", "7", "--out", tmp_path / "out")
    ((cell,),) = (row["loads"].values() for row in json.loads((tmp_path / "out" / "latency.json").read_text())["rows"])
    assert cell["items_per_s"] * numpy.concatenate(cell["rounds"]).mean() / 1e3 == pytest.approx(7, rel=0.01)
    with pytest.raises(StageConflict, match="settings.rows: 7 there, 8 asked for"):
        invoke("bench", target, "--baseline", target, *words, "--rows", "8", "--out", tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["eval", "bench"])
def test_what_ran_is_a_part_of_what_was_asked_for(verb, exported_dir, data_dir, tmp_path):
    """Another runtime of the directory, another baseline of the rows: what was measured before is not taken for it."""
    targets = [f"a={exported_dir}:onnx", f"b={exported_dir}"]
    words = {
        "eval": ["--task", "sst2", "--data", str(data_dir), "--max-length", "16"],
        "bench": ["--shapes", "1x8", "--seconds", "0.02", "--baseline", targets[0]],
    }[verb]
    invoke(verb, *targets, *words, "--out", tmp_path / "out")
    other = [targets[0], f"b={exported_dir}:onnx-int8"]
    with pytest.raises(StageConflict, match="was made by another run"):
        invoke(verb, *other, *words, "--out", tmp_path / "out")
    if verb == "bench":
        with pytest.raises(StageConflict, match="settings.baseline: a onnx fp32 there, b torch fp32 asked for"):
            invoke(verb, *targets, *words[:-1], targets[1], "--out", tmp_path / "out")


@pytest.mark.slow
def test_eval_and_bench_keep_a_record_of_what_they_wrote(exported_dir, data_dir, tmp_path):
    target = f"small={exported_dir}:onnx"
    verbs = {
        "scores": ["eval", target, "--task", "sst2", "--data", str(data_dir), "--max-length", "32"],
        "latency": ["bench", target, "--baseline", target, "--shapes", "1x8", "--seconds", "0.02"],
    }
    for name, words in verbs.items():
        for _ in range(2):
            invoke(*words, "--out", tmp_path / name, "--json", tmp_path / f"{name}.json")
        record = read_record(tmp_path / name)
        assert (record.stage, set(record.files)) == (words[0], {f"{name}.json"})
        assert record.parents["small"]["sha256"] == fingerprint(exported_dir)
        # The second time it was read.
        assert (tmp_path / name / f"{name}.json").read_text() == (tmp_path / f"{name}.json").read_text()
        with pytest.raises(StageConflict, match="was made by another run"):
            invoke(
                *words,
                "--max-length" if name == "scores" else "--shapes",
                16 if name == "scores" else "1x9",
                "--out",
                tmp_path / name,
            )


def test_files_of_predictions_keep_a_record_too(data_dir, tmp_path):
    labels = load_split(str(data_dir), get_task("sst2"), "validation")["label"]
    write_predictions(tmp_path / "mine.tsv", numpy.asarray(labels), get_task("sst2"))
    words = [
        "eval",
        "--predictions",
        tmp_path / "mine.tsv",
        "--task",
        "sst2",
        "--data",
        data_dir,
        "--out",
        tmp_path / "out",
    ]
    assert "100.00" in invoke(*words).stdout
    assert read_scores(tmp_path / "out" / "scores.json").rows[0].metrics == {"accuracy": 100.0}


def test_what_scores_an_engine_is_made_of_names(exported_dir, data_dir):
    """As an export takes it: by the task's first metric on its validation split."""
    score = scorer_for("sst2", str(data_dir))(Engine.load(exported_dir, "onnx"))
    scores = score_targets(
        parse_targets([f"{exported_dir}:onnx"]),
        data=str(data_dir),
        task=get_task("sst2"),
        settings=EvalSettings(max_length=64),
    )
    assert score == scores.rows[0].metrics["accuracy"]


def test_ways_of_batching_are_compared_in_turns(exported_dir, data_dir, tmp_path):
    result = CliRunner().invoke(
        app,
        ["eval", f"{exported_dir}:onnx-int8", "--task", "sst2", "--data", str(data_dir), "--max-length", "32",
         "--batching", "length:128", "--batching", "file:8", "--rounds", "3", "--json", str(tmp_path / "s.json")],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "s.json").read_text())["rows"]
    assert [way["batching"] for way in row["runs"][0]["throughput"]] == ["length:128", "file:8"]
    assert all(len(way["seconds"]) == 3 and way["sentences_per_s"] > 0 for way in row["runs"][0]["throughput"])
