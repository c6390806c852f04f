"""What a machine with a GPU is asked, on a CPU at tiny sizes: the chain and its documents, what is missing, and what is counted."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from hf_albert_plus.cli.app import app
from hf_albert_plus.config_building import build_config
from hf_albert_plus.errors import InvalidInput, StageConflict
from hf_albert_plus.eval.gpu import attention_backends, chain, gpu_documents
from hf_albert_plus.eval.gpu.chain import BackendsDiffer, Chain, run_chain
from hf_albert_plus.eval.gpu.gpu_rows import Attempts, Bench, GpuRow
from hf_albert_plus.eval.gpu.parts import PARTS, Part
from hf_albert_plus.eval.gpu.pretraining import made_examples, numbered_words, packed_rows, useful_operations
from hf_albert_plus.eval.gpu.sizes import FULL, SMALL
from hf_albert_plus.eval.latency.device_calls import Device
from hf_albert_plus.eval.measured_documents import read_latency
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.records.outputs import OutputLock
from tests.support.command_line import invoke
from tests.support.processes import running
from tests.support.small_models import SMALL as SMALL_MODEL

ROOT = Path(__file__).parents[2]
BENCH = Bench(Device("cpu"), SMALL, SMALL.model, {"fp32": 100.0})


def test_a_steps_operations_are_those_that_torch_counts_without_padding():
    """Twice the forward pass for the backward one, and logits of the masked tokens alone."""
    config = build_config({**SMALL_MODEL, "embedding_size": 16, "attention_sharing": 2})
    model = AlbertPlusForPreTraining._from_config(config, attn_implementation="eager").train()
    counted = 0
    for length in (7, 40):
        masked = torch.arange(max(1, round(0.15 * length)))
        with FlopCounterMode(display=False) as counter:
            model(
                input_ids=torch.ones(1, length, dtype=torch.long), masked_positions=masked, labels=torch.ones_like(masked),
                sentence_order_label=torch.zeros(1, dtype=torch.long),
            ).loss.backward()  # fmt: skip
        counted += counter.get_total_flops()
    assert useful_operations(config, [7, 40]) == counted


def test_packed_rows_hold_every_example_once():
    examples = made_examples(numbered_words(50), count=40, longest=24)
    assert {example["length"] for example in examples} > {24}
    assert all(len(example["input_ids"]) == example["length"] for example in examples)
    rows = packed_rows(examples, width=24)
    assert all(sum(example["length"] for example in row) <= 24 for row in rows)
    assert sorted(id(example) for row in rows for example in row) == sorted(map(id, examples))


@pytest.mark.slow
def test_backends_agree_and_one_that_does_not_is_found(monkeypatch, short_benches):
    """A scale of attention that is another one: what flash attention would do with a wrong argument."""
    found = {
        (row.label, row.load): row.facts
        for row in attention_backends.compare_attention(BENCH)
        if row.not_measured is None
    }
    assert len(found) == 8
    assert all(facts["agrees"] for facts in found.values())
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    right = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def wrong(module, query, *args, scaling, **options):
        return right(module, query, *args, scaling=2 * scaling, **options)

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", wrong)
    monkeypatch.setattr(
        attention_backends, "_WAYS", [("eager", "fp32"), ("sdpa", "fp32"), ("eager", "bf16"), ("sdpa", "bf16")]
    )
    rows = attention_backends.compare_attention(BENCH)
    assert {row.label for row in rows if not row.facts["agrees"]} == {"sdpa fp32", "sdpa bf16"}


def test_what_fails_is_a_row_that_says_how():
    attempts = Attempts()

    def compiler():
        raise RuntimeError("no compiler\nand a long trace")

    assert list(attempts.first_calls({"whole": list, "compiled": compiler}, "1x8")) == ["whole"]
    assert [(row.label, row.load, row.not_measured) for row in attempts.rows] == [
        ("compiled", "1x8", "RuntimeError: no compiler")
    ]


ROW = {
    "part": "inference", "label": "torch fp32", "load": "1x8", "unit": "sequences", "runtime": "torch", "of_roof": 0.5,
    "facts": {"flops": 4_000_000, "parameters": 7, "effective_parameters": 9, "sequence_flops": 64_000_000, "architecture_sha256": "a", "cosine": 0.25, "agrees": False},
    "cell": {
        "p50_ms": 2.0, "p90_ms": 2.0, "p95_ms": 2.0, "p99_ms": 2.0, "max_ms": 2.0, "samples": 1, "outliers": 0, "items_per_s": 1500.0,
        "speedup": 1.0, "speedup_interval": [1.0, 1.0], "warm_up": {"calls": 1, "stable": True}, "rounds": [[2.0]],
    },
}  # fmt: skip
ROOF = {"part": "roof", "label": "p", "load": "", "unit": "", "facts": {"precision": "fp32", "gops_per_s": 4.0}}
LACKS = {"part": "tensorrt", "label": "tensorrt", "load": "", "unit": "", "facts": {}, "not_measured": "it needs a GPU"}


def test_the_table_says_what_was_found_and_why_not():
    _, lines = gpu_documents.table_of([ROW, LACKS])
    assert lines[0] == [
        "inference", "torch fp32", "1x8", "2.000", "1,500 sequences", "1.00x (1.00 to 1.00)", "50.0 %", "", "cosine 0.25, agrees NO",
    ]  # fmt: skip
    assert lines[1] == ["tensorrt", "tensorrt", "", "", "", "", "", "", "not measured: it needs a GPU"]
    assert len(gpu_documents.table_text(*gpu_documents.table_of([ROW, LACKS])).splitlines()) == 4


def test_answers_become_a_document_that_reports_read(tmp_path):
    options = {"device": "a GPU", "name": "small", "directory": "d", "model_sha256": "m", "baseline": "torch fp32"}
    assert gpu_documents.latency_document([ROOF, LACKS], **options) is None
    path = tmp_path / "latency.json"
    path.write_text(json.dumps(gpu_documents.latency_document([ROOF, ROW, LACKS], **options)))
    latency = read_latency(path)
    (row,) = latency.rows
    assert (row.label, row.runtime, row.parameters) == ("small torch fp32", "torch", 7)
    assert latency.environment.processor == "a GPU"
    # 4 million operations in 2 ms are 2e9 a second, half of 4e9.
    assert (row.loads["1x8"].gops_per_s, row.loads["1x8"].attained) == (2.0, 0.5)
    assert latency.ceilings["fp32"].gops_per_s == 4.0


class Fakes:
    """Parts that note when they are measured."""

    def __init__(self, monkeypatch, *, facts=None):
        self.measured, self.facts, self.broken = [], facts or {}, set()
        parts = [Part(name, "does", 60, self._of(name)) for name in ("one", "two", "three")]
        parts.append(Part("four", "does", 1, self._of("four"), libraries=("no_such_library",)))
        monkeypatch.setattr(chain, "PARTS", tuple(parts))

    def _of(self, name):
        def measure(bench):
            self.measured.append(name)
            if name in self.broken:
                raise MemoryError("CUDA out of memory")
            return [GpuRow(label=name, load="", facts=self.facts)]

        return measure


def small_chain(**options):
    return Chain(**{"device": Device("cpu"), "sizes": SMALL, "model": "bert-tiny", "minutes": 10.0, **options})


def not_measured(content):
    return {row["label"]: row["not_measured"] for row in content["rows"] if "not_measured" in row}


def test_parts_are_measured_once_and_what_failed_or_changed_again(monkeypatch, tmp_path):
    fakes = Fakes(monkeypatch)
    fakes.broken = {"two"}
    content = run_chain(small_chain(), tmp_path / "out")
    assert fakes.measured == ["one", "two", "three"]
    assert not_measured(content) == {"two": "MemoryError: CUDA out of memory", "four": "no_such_library not installed"}
    fakes.broken = set()
    (tmp_path / "out" / "three.json").write_text('{"identity": ')
    assert set(not_measured(run_chain(small_chain(), tmp_path / "out"))) == {"four"}
    assert fakes.measured[3:] == ["two", "three"]
    run_chain(small_chain(model="bert-mini"), tmp_path / "out")
    assert fakes.measured[5:] == ["one", "two", "three"]
    kept = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert [row["label"] for row in kept["rows"]] == ["one", "two", "three", "four"]
    assert not (tmp_path / "out" / "latency.json").exists()


def test_no_part_begins_that_would_end_too_late(monkeypatch, tmp_path):
    fakes = Fakes(monkeypatch)
    clock = iter(range(0, 10_000, 45))
    monkeypatch.setattr(chain.time, "monotonic", lambda: next(clock))
    content = run_chain(small_chain(sizes=FULL, minutes=3.0), tmp_path / "out")
    assert fakes.measured == ["one"]
    assert "run the same command again" in not_measured(content)["two"]
    run_chain(small_chain(sizes=FULL, minutes=600.0), tmp_path / "out")
    assert fakes.measured == ["one", "two", "three"]


def test_backends_that_differ_are_an_error_after_all_is_written(monkeypatch, tmp_path):
    Fakes(monkeypatch, facts={"agrees": False})
    with pytest.raises(BackendsDiffer, match="got others from one , two , three"):
        run_chain(small_chain(), tmp_path / "out")
    assert "agrees NO" in (tmp_path / "out" / "gpu.md").read_text()


def test_two_processes_do_not_write_one_directory(monkeypatch, tmp_path):
    Fakes(monkeypatch)
    with OutputLock(tmp_path / "out"), pytest.raises(StageConflict, match="another process is writing"):
        run_chain(small_chain(), tmp_path / "out")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--device", "cpu", "--minutes", "0"], "--minutes must be greater than 0"),
        (["--device", "cpu", "--model", "bert-tinny"], "--model must be a model directory or the name of a variant, got 'bert-tinny'"),
        ([], "this needs an NVIDIA GPU that torch can use, got none"),
    ],
)  # fmt: skip
@pytest.mark.skipif(torch.cuda.is_available(), reason="what a machine without a GPU says")
def test_what_cannot_begin_is_refused_before_anything_is_written(tmp_path, words, message):
    result = CliRunner().invoke(app, ["bench", "gpu", "--out", str(tmp_path / "out"), *words])
    assert isinstance(result.exception, InvalidInput)
    assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_the_plan_names_every_part_and_what_is_missing(tmp_path):
    result = invoke("bench", "gpu", "--out", tmp_path / "out", "--device", "cpu", "--plan")
    for part in PARTS:
        assert f"{part.name} (" in result.stderr
        assert part.does in result.stderr
    assert "tensorrt (not measured: it needs a GPU)" in result.stderr
    assert "about 10 s on an H200" in result.stderr
    assert not (tmp_path / "out").exists()


def test_ten_minutes_are_enough_for_all_parts():
    assert sum(part.seconds for part in PARTS) <= 600


# As a machine is that has torch for its GPU and little else, and whose Python knows nothing of this package.
_BARE = """
import importlib.machinery, runpy, sys

LACKING = {"datasets", "pydantic", "optuna", "seqeval", "evaluate", "openvino", "nncf", "ray", "typer", "rich"}

class WithoutThem(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in LACKING else super().find_spec(name, path, target)

sys.meta_path = [importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter, WithoutThem]
sys.path = [path for path in sys.path if "__editable__" not in path and path != ""]
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def bare(*words, **options):
    command = [sys.executable, "-c", _BARE, str(ROOT / "examples" / "bench_gpu.py"), *map(str, words)]
    return running(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, **options)  # fmt: skip


@pytest.mark.slow
@pytest.mark.pages
@pytest.mark.timeout(1800)
def test_a_bare_machine_runs_all_of_it_and_goes_on_after_a_kill(tmp_path):
    words = ["--out", tmp_path / "out", "--device", "cpu", "--small"]
    with bare(*words) as first:
        while not (tmp_path / "out" / "inference.json").exists():
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        first.kill()
        first.communicate()
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")}
    assert "attention.json" in kept
    assert "gpu.json" not in kept
    with bare(*words) as again:
        printed, said = again.communicate()
    assert again.returncode == 0, said
    assert {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in kept} == kept
    content = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert printed == (tmp_path / "out" / "gpu.md").read_text()
    assert not list((tmp_path / "out").glob(".*.tmp"))
    rows = {(row["part"], row["label"], row["load"]): row for row in content["rows"]}
    assert {part for part, *_ in rows} == {part.name for part in PARTS}
    why = " ".join(row["not_measured"] for row in content["rows"] if "not_measured" in row)
    assert "Error" not in why.replace("ImportError: FlashAttention2", ""), why
    exits = rows["exits", "exits fp32, rows leave", "4x16"]["facts"]
    assert exits["rows_that_leave_alike"] == 4
    assert exits["largest_difference"] < 1e-5
    assert 1 < exits["mean_layers"] < 2
    for precision, tolerance in (("fp32", 1e-5), ("fp16", 1e-2), ("int8", 1.0)):
        assert rows["onnxruntime", f"onnxruntime {precision}", "4x16"]["facts"]["max_abs_difference"] < tolerance
    latency = read_latency(tmp_path / "out" / "latency.json")
    assert latency.baseline == "bert-tiny torch fp32"
    assert latency.loads == ["1x8", "4x16"]


@pytest.mark.slow
def test_a_report_joins_what_the_device_answered_with_scores(classifier_dir, data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(chain, "PARTS", tuple(part for part in PARTS if part.name in ("roof", "inference")))
    invoke("bench", "gpu", "--device", "cpu", "--small", "--model", classifier_dir, "--out", tmp_path / "gpu")
    invoke(
        "eval",
        classifier_dir,
        "--task",
        "sst2",
        "--data",
        data_dir,
        "--max-length",
        32,
        "--json",
        tmp_path / "scores.json",
    )
    files = ["--scores", tmp_path / "scores.json", "--bench", tmp_path / "gpu" / "latency.json"]
    invoke("report", *files, "--out", tmp_path / "report")
    table = json.loads((tmp_path / "report" / "report.json").read_text())["table"]
    rows = {row["model"]: row for row in table}
    assert rows[f"{classifier_dir.name} torch fp32"]["4x16 speedup"] == "1.00x"
    assert rows[f"{classifier_dir.name} torch fp32"]["sst2 accuracy"] != "not measured"
    assert rows[f"{classifier_dir.name} torch bf16"]["sst2 accuracy"] == "not measured"
