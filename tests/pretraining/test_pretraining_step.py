"""The step of pretraining: the attention that a machine gets, and what the bench times."""

from dataclasses import replace

import numpy
import pytest
import torch
from datasets import load_from_disk

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency import pretraining_step
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.pretraining import stage
from hf_albert_plus.pretraining.batches import PackedRows
from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.pretraining.trainer import fastest_attention, use_attention
from hf_albert_plus.records.record import fingerprint
from tests.support.pretraining import CONFIG, SETTINGS, WIDTH, make_collator
from tests.support.small_models import small_config


@pytest.mark.parametrize(
    ("attention", "precision", "message"),
    [
        ("flex_attention", "bf16", "--attention flex_attention needs a GPU to train, got a CPU; use --attention auto"),
        ("flash_attention_2", "fp32", "--attention flash_attention_2 needs --precision bf16, got fp32"),
        ("flash_attention_2", "bf16", "--attention flash_attention_2 must be installed, got .*; use --attention auto"),
    ],
)
@pytest.mark.skipif(torch.accelerator.is_available(), reason="what a CPU cannot train with")
def test_attention_that_cannot_train_here(attention, precision, message):
    model = AlbertPlusForPreTraining(small_config())
    with pytest.raises(InvalidInput, match=message):
        use_attention(model, attention, bf16=precision == "bf16", packed=True)


@pytest.mark.parametrize(
    ("gpu", "flash", "bf16", "packed", "expected"),
    [
        (False, False, True, True, "eager"),
        (False, False, False, True, "sdpa"),
        (True, True, True, True, "flash_attention_2"),
        (True, True, False, True, "flex_attention"),
        (True, False, True, True, "flex_attention"),
        (True, False, True, False, "sdpa"),
    ],
)
def test_the_attention_of_a_machine(monkeypatch, gpu, flash, bf16, packed, expected):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr("hf_albert_plus.pretraining.trainer.is_flash_attn_2_available", lambda: flash)
    assert fastest_attention(bf16=bf16, packed=packed) == expected


def test_passes_and_processes_share_a_step_evenly(monkeypatch):
    monkeypatch.setattr(stage.processes, "count", lambda: 3)
    settings = PretrainSettings(**{**SETTINGS, "batch_size": 24, "accumulate": 4})
    assert stage.rows_of_a_pass(settings) == 2
    with pytest.raises(InvalidInput, match="multiple of 12, .* got 20; use --batch-size 24"):
        stage.rows_of_a_pass(replace(settings, batch_size=20))


@pytest.mark.slow
def test_steps_are_timed_against_transformers(corpus, monkeypatch, short_benches):
    """Both train on the same examples from the same weights: the losses of their first steps agree but for the masks."""
    monkeypatch.setattr(pretraining_step, "_BATCHES", 2)
    before = fingerprint(corpus)
    document = pretraining_step.bench_pretraining(
        corpus,
        fields={**CONFIG, "attention_sharing": "all", "ffn_sharing": "all"},
        batch_size=8,
        bf16=False,
        seconds=0.05,
        threads=1,
    )
    labels = [row["label"] for row in document["rows"]]
    assert labels == ["transformers, padded", "ours, padded", "ours, packed"]
    for row in document["rows"]:
        # Speed is tokens a second, whatever the number of tokens in a batch.
        assert row["tokens_per_s"] == pytest.approx(
            1e6 / numpy.mean([ms for block in row["rounds"] for ms in block]), rel=0.01
        )
        assert 0 < row["share_of_ceiling"] < 100
    assert document["rows"][0]["speedup"] == 1
    assert fingerprint(corpus) == before  # or a training on it could not go on
    with pytest.raises(InvalidInput, match="use a smaller --batch-size"):
        pretraining_step.bench_pretraining(
            corpus, fields=CONFIG, batch_size=10_000, bf16=False, seconds=0.05, threads=1
        )


def test_batches_of_the_bench_count_real_tokens(corpus, corpus_tokenizer):
    rows = load_from_disk(str(corpus))["train"]
    batches = pretraining_step._Batches(rows, pretraining_step.usual_collator(corpus_tokenizer), 8)
    batch, tokens = next(iter(batches))
    assert int(batch["attention_mask"].sum()) == tokens
    packed = pretraining_step._Batches(PackedRows(rows, width=WIDTH), make_collator(corpus_tokenizer, packed=True), 4)
    batch, tokens = next(iter(packed))
    assert int((batch["sequence_ids"] > 0).sum()) == tokens
