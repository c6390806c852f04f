"""Encoders that give vectors have rows in a bench: at fixed shapes, under a task's sentences, and behind a server."""

import json

import pytest
import torch

from hf_albert_plus.engines.batching import pad_rows, run_batches
from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.load import served
from hf_albert_plus.eval.load.traffic import Traffic
from hf_albert_plus.eval.settings import ServedSettings
from hf_albert_plus.eval.targets import parse_target
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.rows import load_tokenizer
from tests.support.command_line import invoke
from tests.support.kinds import TEXTS
from tests.support.local_server import InProcess


@pytest.mark.slow
def test_an_encoder_has_a_row_for_each_engine(vectors_dir, data_dir, tmp_path, short_benches):
    invoke("bench", f"{vectors_dir}:onnx-int8", "--baseline", vectors_dir, "--shapes", "1x8", "--data", data_dir, "--task", "sst2",
           "--scenario", "single-stream", "--scenario", "offline", "--max-length", "16", "--seconds", "0.1", "--json", tmp_path / "bench.json")  # fmt: skip
    rows = json.loads((tmp_path / "bench.json").read_text())["rows"]
    assert [row["runtime"] for row in rows] == ["onnx-int8", "torch"]
    for row in rows:
        assert set(row["loads"]) == {"1x8", "sst2 single stream", "sst2 offline"}
        assert all(cell["p50_ms"] > 0 for cell in row["loads"].values())
    assert {row["loads"]["1x8"]["flops"] for row in rows} == {rows[0]["loads"]["1x8"]["flops"]}


@pytest.mark.parametrize("runtime", ["torch", "onnx"])
def test_a_batch_gives_each_row_its_vector_and_its_own_tokens(vectors_dir, runtime):
    engine = Engine.load(vectors_dir, runtime, threads=1)
    tokenizer = load_tokenizer(vectors_dir, engine.config)
    rows = [dict(tokenizer(text)) for text in TEXTS]
    together = [list(range(len(rows)))]
    answers = run_batches(engine, rows, together, pad=lambda some: pad_rows(some, tokenizer), description=None)
    for text, row, answer in zip(TEXTS, rows, answers, strict=True):
        alone = engine(**tokenizer(text, return_tensors="pt"))
        assert answer["last_hidden_state"].shape == (len(row["input_ids"]), 32)
        torch.testing.assert_close(answer["sentence_embedding"], alone.sentence_embedding[0], atol=1e-5, rtol=0)
    pad, kept = (lambda some: pad_rows(some, tokenizer)), ("logits", "sentence_embedding")
    answers = run_batches(engine, rows, together, pad=pad, kept=kept, description=None)
    assert {name for answer in answers for name in answer} == {"sentence_embedding"}


@pytest.mark.slow
def test_a_server_of_vectors_is_compared_with_its_engine(monkeypatch, vectors_dir, data_dir, short_benches):
    monkeypatch.setattr(served, "ServerProcess", InProcess)
    monkeypatch.setattr(served, "_BLOCK", 32)
    monkeypatch.setattr(served, "_ROUNDS", 3)
    traffic = Traffic(data=str(data_dir), task=get_task("sst2"), max_length=32)
    target = parse_target(f"{vectors_dir}:onnx")
    document = served.bench_served(target, traffic, ServedSettings(texts=8, clients=2, seconds=1))
    assert document["label_agreement"] is None
    assert document["throughput"][served.SERVED]["speedup"] > 0


@pytest.mark.parametrize(
    ("task", "peers", "said"),
    [
        ("mrpc", False, "an encoder gives vectors of single texts, got mrpc, a task of pairs"),
        ("sst2", True, "--peers give labels, got an encoder, which gives vectors; leave it out"),
    ],
)
def test_what_a_server_of_vectors_does_not_answer_is_refused(vectors_dir, data_dir, tmp_path, task, peers, said):
    traffic = Traffic(data=str(data_dir), task=get_task(task), max_length=32)
    target, settings = parse_target(f"{vectors_dir}:onnx"), ServedSettings(seconds=1)
    with pytest.raises(InvalidInput, match=said):
        served.bench_served(target, traffic, settings, peers=tmp_path if peers else None)
