"""The tables that the study of GLUE prints of its documents: means over tasks, shares of the teacher's, and speedups."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from hf_albert_plus.eval.measured_documents import BatchingPace, ScoredRow, ScoredRun
from hf_albert_plus.eval.reporting.engine_split import Split
from hf_albert_plus.eval.reporting.table import Row, Table
from tests.support.timings import cell_of

PATH = Path(__file__).parents[2] / "examples" / "glue_table.py"


@pytest.fixture(scope="module")
def glue_table():
    spec = importlib.util.spec_from_file_location("glue_table", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row_of(label, scores, *, ms, split=None):
    """A row with the scores of the parts of a task, each of two runs."""
    paces = [
        BatchingPace(batching="length:512", sentences_per_s=1234.0, seconds=[1.0]),
        BatchingPace(batching="file:32", sentences_per_s=567.0, seconds=[1.0]),
    ]
    run = ScoredRun(
        directory=label, seed=1, model_sha256="m", architecture_sha256="a", predictions=[1], throughput=paces
    )
    scored = {
        part: ScoredRow(
            label=label, name=label, runtime="onnx", task=part, split="validation", examples=1, glue_examples=None, metrics={"accuracy": score},
            intervals={"accuracy": [score - 1, score + 1]}, runs=[run, run],
        )
        for part, score in scores.items()
    }  # fmt: skip
    timings = {} if ms is None else {"x single stream": cell_of(ms), "x offline": cell_of(ms)}
    sizes = {"parameters": 1_000_000, "file_bytes": 4_000_000, "sequence_flops": 2_500_000_000}
    return Row(
        label,
        label,
        "onnx",
        sizes=sizes,
        scores=scored,
        timings=timings,
        splits={} if split is None else {"x offline": split},
    )


@pytest.fixture
def tables():
    """A teacher and a student on two tasks, one of two parts; a floor on one of them."""
    split = Split(total=20.0, engine=8.0, model=2.5, model_interval=(2.4, 2.6))
    one = [row_of("teacher", {"mrpc": 80.0}, ms=80.0), row_of("student", {"mrpc": 76.0}, ms=4.0, split=split), row_of("floor", {"mrpc": 60.0}, ms=None)]  # fmt: skip
    two = [
        row_of("teacher", {"mnli": 90.0, "mnli-mm": 70.0}, ms=80.0),
        row_of("student", {"mnli": 88.0, "mnli-mm": 64.0}, ms=16.0),
    ]
    loads = ("x single stream", "x offline")
    return {"mrpc": Table("teacher", ("mrpc",), loads, tuple(one)), "mnli": Table("teacher", ("mnli", "mnli-mm"), loads, tuple(two))}  # fmt: skip


def cells(printed):
    lines = [line.strip("| ").split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    return {tuple(line[:1]): line for line in lines if line[0] in ("teacher", "student", "floor")}


def test_means_shares_and_speedups(glue_table, tables, capsys):
    tasks = ["mrpc", "mnli"]
    glue_table.print_scores(tables, glue_table.summarised(tables, tasks), tasks)
    rows = cells(capsys.readouterr().out)
    # (76 + (88 + 64) / 2) / 2 = 76, of 80; 20 times and 5 times are 10 times in the geometric mean.
    assert rows["student",][1] == "76.0 (75.0 to 77.0), 2 runs"
    # What is the engine's part is known of one task alone.
    assert rows["student",][-7:] == ["76.0", "95.0 %", "4.0", "1.0x", "10.0x", *["not measured"] * 2]
    assert rows["teacher",][-7:-2] == ["80.0", "100.0 %", "4.0", "1.0x", "1.0x"]
    assert rows["floor",][2:] == ["not measured"] * 9


def test_what_searches_found_is_one_row_whatever_runs_it(glue_table):
    found = [Row(f"small-3 {label}", "small-3", runtime, sizes={}, scores={}, timings={}, splits={}) for label, runtime in (("onnx int8", "onnx-int8"), ("onnx int8 with exits", "onnx-int8-exits"))]  # fmt: skip
    assert {glue_table.label_of(row) for row in found} == {"found from the small one for 3 points"}
    assert glue_table.label_of(replace(found[0], name="small-4.5")) == "found from the small one for 4.5 points"
    assert glue_table.label_of(replace(found[0], name="small-1")) == "found from the small one for 1 point"


def test_costs(glue_table, tables, capsys):
    glue_table.print_costs("mrpc", [glue_table.Cost.of(row) for row in tables["mrpc"].rows])
    rows = cells(capsys.readouterr().out)
    assert rows["student",][1:] == [
        "1,000,000", "not measured", "4.0", "2.50", "4.00", "4.00", "1,234", "567", "not measured", "20.00x (20.00 to 20.00)", "8.00x", "2.50x",
    ]  # fmt: skip
    assert rows["floor",][-3:] == ["not measured"] * 3
