"""The bench of peers and passes builds what it says it builds; memory is measured; a GPU is asked for plainly."""

import json

import pytest
from typer.testing import CliRunner

from hf_albert_plus.cli.app import app
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.peers import BASELINE, bench_peers
from hf_albert_plus.eval.shapes import Shape, parse_shapes
from hf_albert_plus.export.graph import PASSES


@pytest.fixture(scope="module")
def peers(classifier_dir):
    return bench_peers(str(classifier_dir), shapes=parse_shapes("2x8"), seconds=0.05)


@pytest.mark.slow
def test_every_way_is_built_and_counted(peers):
    assert peers["not_built"] == {}
    assert peers["model"] == "AlbertForSequenceClassification"  # transformers' own, where it computes the model
    rows = {row["label"]: row for row in peers["rows"]}
    assert set(rows) >= {
        BASELINE, "transformers eager bf16", "torch.compile fp32", "transformers.exporters onnx fp32",
        "transformers.exporters onnx int8", "quantize_dynamic", "quantize_dynamic after pre-processing", "OpenVINO",
        "OpenVINO + NNCF", "ours: onnx", "ours: onnx-int8", "ours: openvino", "ours: openvino-int8",
    }  # fmt: skip
    assert rows["ours: onnx-int8"]["quantised_products"] == rows["ours: onnx-int8"]["weight_products"] == 27
    assert rows["quantize_dynamic after pre-processing"]["quantised_products"] == 27
    assert rows["quantize_dynamic"]["quantised_products"] < 27  # weights of layers past the first lie behind Identity
    assert rows["ours: onnx-int8"]["file_bytes"] <= min(
        rows[name]["file_bytes"] for name in ("quantize_dynamic", "transformers.exporters onnx int8")
    )
    assert rows[BASELINE]["loads"]["2x8"]["speedup"] == 1.0
    assert all(row["cosine"] > 0.98 for row in rows.values())


@pytest.mark.slow
def test_passes_are_timed_with_and_without_each(classifier_dir, tmp_path):
    result = CliRunner().invoke(
        app,
        [
            "bench",
            "--passes",
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
    from hf_albert_plus.eval.loading import measure_process
    from hf_albert_plus.eval.targets import parse_target

    facts = measure_process(parse_target(f"{exported_dir}:onnx-int8"), shapes=[Shape(2, 8)], threads=1)
    assert 0 < facts["load_mb"] < 60
    assert facts["load_ms"] > 0
    assert facts["peak_rss_mb"] > 100


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench"], "bench times targets, or --peers, or --passes, got none of them"),
        (["bench", "{d}", "--peers", "bert-tiny"], "got TARGET and --peers"),
        (["bench", "{d}"], "a speedup needs a baseline, got no --baseline"),
        (
            ["bench", "--peers", "bert-tinny"],
            "--peers must be a model directory or the name of a variant, got 'bert-tinny'",
        ),
        (["bench", "--peers", "bert-tiny", "--shapes", "1x9999"], "must fit the 512 positions of bert-tiny"),
        (["bench", "--peers", "bert-tiny", "--seconds", "0"], "--seconds must be greater than 0"),
        (
            ["bench", "--peers", "bert-tiny", "--device", "cuda"],
            "got it with --peers, --passes or --baseline",
        ),
        (["bench", "{d}", "--device", "cuda"], "--device cuda needs an NVIDIA GPU"),
        (["bench", "{d}", "{d}:onnx", "--device", "cuda"], "--device cuda times one target, got 2 targets"),
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
