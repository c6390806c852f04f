"""Speedups taken apart into what the engine does and what the model does, and the operations that a model takes, by hand."""

import csv
import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from hf_albert_plus.eval.latency.costs import Arithmetic
from hf_albert_plus.eval.measured_documents import Latency, LoadedEnvironment, TimedRow
from hf_albert_plus.eval.reporting.engine_split import Split, engine_splits
from hf_albert_plus.eval.reporting.plots import split_svg
from hf_albert_plus.eval.reporting.presentation import csv_text, split_grid
from hf_albert_plus.eval.reporting.table import build_table
from hf_albert_plus.machine import environment
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from tests.support.small_models import small_config
from tests.support.timings import cell_of

# Milliseconds of a call.
MS = {
    ("teacher", "torch"): 80.0, ("teacher", "onnx"): 40.0, ("teacher", "onnx-int8"): 10.0,
    ("student", "torch"): 20.0, ("student", "onnx"): 8.0, ("student", "onnx-int8"): 4.0, ("student", "openvino"): 5.0,
    ("exits", "onnx-int8-exits"): 2.0,
}  # fmt: skip
FLOPS = {"teacher": 22_000_000_000, "student": 5_500_000_000}


def latency_of(ms, baseline="teacher torch"):
    rows = [
        TimedRow(
            label=f"{name} {runtime}", name=name, runtime=runtime, directory=name, model_sha256=f"{name} {runtime}", architecture_sha256=name,
            sequence_flops=FLOPS.get(name), loads={"8x128": cell_of(taken)},
        )
        for (name, runtime), taken in ms.items()
    ]  # fmt: skip
    here = LoadedEnvironment(**environment(threads=1), load_average_after=0.0)
    return Latency(baseline=baseline, loads=["8x128"], ceilings={}, rows=rows, environment=here)


def test_a_speedup_is_the_engines_times_the_models():
    splits = {label: of_load["8x128"] for label, of_load in engine_splits(latency_of(MS)).items()}
    assert splits == {
        "teacher torch": Split(1.0, 1.0, 1.0, (1.0, 1.0)),
        "teacher onnx": Split(2.0, 2.0, 1.0, (1.0, 1.0)),
        "teacher onnx-int8": Split(8.0, 8.0, 1.0, (1.0, 1.0)),
        "student torch": Split(4.0, 1.0, 4.0, (4.0, 4.0)),
        "student onnx": Split(10.0, 2.0, 5.0, (5.0, 5.0)),
        "student onnx-int8": Split(20.0, 8.0, 2.5, (2.5, 2.5)),
        # A graph with exits beside the same engine without them; the teacher was not timed in OpenVINO.
        "exits onnx-int8-exits": Split(40.0, 8.0, 5.0, (5.0, 5.0)),
    }
    assert all(split.engine * split.model == pytest.approx(split.total) for split in splits.values())


def test_rows_that_did_not_take_turns_are_not_compared():
    latency = latency_of(MS)
    latency.rows[1].loads["8x128"].rounds.append([40.0])
    splits = engine_splits(latency)
    assert splits["student onnx"] == {}
    assert splits["student onnx-int8"]["8x128"].model == 2.5


def test_a_report_says_both_parts_and_draws_them():
    table = build_table([], latency_of(MS))
    header, cells = split_grid(table)
    assert header == ["model", "load", "speedup", "of the engine", "of the model (95 %)", "times fewer FLOPs"]
    rows = {line[0]: line[2:] for line in cells}
    assert "teacher torch" not in rows
    assert rows["student onnx"] == ["10.00x", "2.00x", "5.00x (5.00 to 5.00)", "4.00x"]
    assert rows["exits onnx-int8-exits"] == ["40.00x", "8.00x", "5.00x (5.00 to 5.00)", "not measured"]
    figures = {(line["model"], line["figure"]): line["value"] for line in csv.DictReader(csv_text(table).splitlines())}
    assert float(figures["student onnx", "speedup in the same engine"]) == 5.0
    assert ("student openvino", "speedup in the same engine") not in figures
    svg = split_svg(table, "8x128")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert {"student onnx-int8", "exits onnx-int8-exits", "engine", "model"} <= set(texts)
    assert [text.strip() for text in texts if re.fullmatch(r"\s*[\d.]+x", text)] == [
        "2.0x",
        "8.0x",
        "4.0x",
        "10.0x",
        "20.0x",
        "40.0x",
    ]


def test_bars_are_as_long_as_their_logarithms():
    """An engine's part of 2 and a model's part of 5 are as long as log 2 and log 5."""
    table = build_table([], latency_of({key: MS[key] for key in list(MS)[:2]} | {("student", "onnx"): 8.0}))
    svg = split_svg(table, "8x128")
    places = [
        [float(x) for x in re.findall(r"[ML] ([\d.]+) ", path)]
        for path in re.findall(
            r'<g id="patch_\d+">\s*<path d="([^"]*)"[^>]*style="fill: #[0-9a-f]{6}; opacity: 0.8"', svg
        )
    ]
    widths = [max(each) - min(each) for each in places if each]
    engine, nothing, same, model = widths[:4]
    assert nothing == 0
    assert same == pytest.approx(engine)
    assert model / engine == pytest.approx(2.3219, rel=1e-3)


def test_nothing_is_drawn_without_another_model_in_the_baselines_engines():
    assert split_svg(build_table([], latency_of({key: MS[key] for key in list(MS)[:3]})), "8x128") is None
    alone = latency_of({("teacher", "torch"): 80.0, ("student", "openvino"): 5.0})
    assert split_svg(build_table([], alone), "8x128") is None
    assert split_grid(build_table([], alone))[1] == []


def test_operations_of_a_sequence_by_hand_and_by_torch():
    """Four layers that share one block take as many as four of their own; positions end at 64."""
    config = small_config(attention_sharing="all", ffn_sharing="all", num_labels=3)
    model = AlbertPlusForSequenceClassification._from_config(config, attn_implementation="eager").eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.ones(1, 64, dtype=torch.long))
    s, e, h, f = 64, 16, 32, 48
    layer = 4 * s * h * h + 2 * s * s * h + 2 * s * h * f
    by_hand = 2 * (s * e * h + 4 * layer + h * h + 3 * h)
    config.architectures = ["AlbertPlusForSequenceClassification"]
    assert Arithmetic(config).sequence_flops == counter.get_total_flops() == by_hand
