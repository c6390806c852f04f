"""Pretraining: batches against the examples they are made of, scores against one row at a time, runs killed, accumulated and on
two processes against plain ones."""

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from unittest.mock import patch

import numpy
import pytest
import torch
from datasets import load_from_disk
from safetensors.torch import load_file
from scipy.stats import entropy
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer, TrainerControl, TrainerState, set_seed

from hf_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.accumulation import AccumulatingTrainer
from hf_albert_plus.corpus import CorpusSettings, build_corpus
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval import pretraining_step
from hf_albert_plus.pretraining import PretrainSettings, pretrain, stage
from hf_albert_plus.pretraining import trainer as trainer_module
from hf_albert_plus.pretraining.attention import fastest_attention, use_attention
from hf_albert_plus.pretraining.choosers import Spans
from hf_albert_plus.pretraining.collator import PretrainingCollator
from hf_albert_plus.pretraining.divergence import Diverged, StopsDiverging
from hf_albert_plus.pretraining.evaluation import score_held_out, unigram_entropy
from hf_albert_plus.pretraining.masking import Masking
from hf_albert_plus.pretraining.packing import PackedRows
from hf_albert_plus.records import fingerprint, read_record
from hf_albert_plus.variants import build_config, vocabulary_fields
from tests.conftest import SMALL, invoke, randomise, small_config
from tests.test_corpus import make_text

WIDTH = 32
CONFIG = {**{name: SMALL[name] for name in SMALL if name != "vocab_size"}, "embedding_size": 16}
SETTINGS = {
    "epochs": 1,
    "batch_size": 16,
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "precision": "fp32",
    "evaluations": 2,
}


@pytest.fixture(scope="module")
def told_text(tokenizer_dir, tmp_path_factory):
    """Words that tell each other: a sentence goes on with the alphabet where the one before stopped."""
    directory, letters = tmp_path_factory.mktemp("told"), "abcdefghijklmnopqrstuvwxyz"
    documents = [
        "\n".join(" ".join(letters[(start + 4 * line + place) % 26] for place in range(4)) + "." for line in range(5))
        for start in range(26)
        for _ in range(12)
    ]
    (directory / "text.txt").write_text("\n\n".join(documents))
    settings = CorpusSettings(max_length=32, held_out=0.2, language="none")
    build_corpus(
        [str(directory / "text.txt")],
        tokenizer=str(tokenizer_dir),
        output=directory / "corpus",
        settings=settings,
        workers=1,
    )
    return directory / "corpus"


@pytest.fixture(scope="module")
def text_without_order(tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("without-order")
    (directory / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in make_text(count=120)))
    settings = CorpusSettings(max_length=32, held_out=0.2, order="none")
    build_corpus(
        [str(directory / "text.txt")],
        tokenizer=str(tokenizer_dir),
        output=directory / "corpus",
        settings=settings,
        workers=1,
    )
    return directory / "corpus"


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return AutoTokenizer.from_pretrained(corpus / "tokenizer")


def make_collator(tokenizer, *, packed, **options):
    masking = Masking(tokenizer, chooser=Spans(tokenizer), seed=0)
    return PretrainingCollator(tokenizer, masking=masking, width=WIDTH if packed else None, **options)


def unmasked(batch):
    """Ids with the labels put back."""
    ids = batch["input_ids"].flatten().clone()
    ids[batch["masked_positions"]] = batch["labels"]
    return ids.view(batch["input_ids"].shape)


def test_a_packed_batch_holds_its_examples(corpus, tokenizer):
    rows = load_from_disk(str(corpus))["train"]
    packed = PackedRows(rows, width=WIDTH)
    items = [packed[i] for i in range(len(packed) - 12, len(packed))]
    batch = make_collator(tokenizer, packed=True)(items)
    ids = unmasked(batch)
    found, firsts, orders = [], [], []
    for row, item in enumerate(items):
        start = 0
        for number, example in enumerate(item, start=1):
            place = slice(start, start + example["length"])
            assert ids[row, place].tolist() == example["input_ids"]
            assert batch["sequence_ids"][row, place].tolist() == [number] * example["length"]
            assert batch["position_ids"][row, place].tolist() == list(range(example["length"]))
            second = example["second_segment"] or example["length"]
            assert batch["token_type_ids"][row, place].tolist() == [0] * second + [1] * (example["length"] - second)
            firsts.append(row * ids.shape[1] + start)
            orders.append(example["sentence_order_label"])
            start += example["length"]
        assert batch["sequence_ids"][row, start:].eq(0).all()
        found.append(len(item))
    assert max(found) > 1
    assert batch["first_positions"].tolist() == firsts
    assert batch["sentence_order_label"].tolist() == orders
    assert (ids.flatten()[batch["first_positions"]] == tokenizer.cls_token_id).all()
    assert batch["labels"].shape == batch["masked_positions"].shape


def test_some_of_the_examples_are_packed_too(corpus):
    some = load_from_disk(str(corpus))["train"].select([5, 2, 9, 3])
    packed = PackedRows(some, width=WIDTH)
    found = sorted(example["input_ids"] for i in range(len(packed)) for example in packed[i])
    assert found == sorted(some["input_ids"])


def test_a_padded_batch_holds_its_examples(corpus, tokenizer):
    rows = load_from_disk(str(corpus))["train"].to_list()[:20]
    batch = make_collator(tokenizer, packed=False)(rows)
    ids = unmasked(batch)
    assert batch["attention_mask"].sum(1).tolist() == [row["length"] for row in rows]
    for row, example in enumerate(rows):
        assert ids[row, : example["length"]].tolist() == example["input_ids"]
        assert ids[row, example["length"] :].eq(tokenizer.pad_token_id).all()
    assert set(batch) == {
        "input_ids", "attention_mask", "token_type_ids", "labels", "masked_positions", "sentence_order_label",
    }  # fmt: skip
    assert "token_type_ids" not in make_collator(tokenizer, packed=False, token_types=False)(rows)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_held_out_scores_are_those_of_one_row_at_a_time(corpus, tokenizer, packed, batch_size):
    examples = load_from_disk(str(corpus))["validation"]
    model = randomise(AlbertPlusForPreTraining(small_config(vocab_size=len(tokenizer)))).train()
    collator = make_collator(tokenizer, packed=packed)
    collator.draws.epoch = 3
    rows = PackedRows(examples, width=WIDTH) if packed else examples
    scores = score_held_out(model, rows, collator, batch_size=batch_size, device=torch.device("cpu"), autocast=False)
    assert model.training
    assert collator.draws.epoch == 3
    masking = Masking(tokenizer, chooser=Spans(tokenizer), seed=0)
    losses, right, orders = [], [], []
    model.eval()
    for example in examples:
        seen, labels = masking(example["input_ids"])
        second = example["second_segment"] or example["length"]
        types = torch.tensor([[0] * second + [1] * (example["length"] - second)])
        with torch.no_grad():
            outputs = model(input_ids=torch.tensor([seen]), token_type_ids=types)
        for logits, label in zip(outputs.prediction_logits[0], labels, strict=True):
            if label != -100:
                losses.append(float(torch.logsumexp(logits, -1) - logits[label]))
                right.append(int(logits.argmax()) == label)
        if example["sentence_order_label"] != -100:
            orders.append(int(outputs.sop_logits.argmax()) == example["sentence_order_label"])
    assert scores["masked_tokens"] == len(losses)
    assert scores["orders"] == len(orders)
    assert scores["mlm_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert scores["mlm_accuracy"] == pytest.approx(sum(right) / len(right))
    assert scores["order_accuracy"] == pytest.approx(sum(orders) / len(orders))


def test_entropy_of_single_tokens_is_scipys(corpus, tokenizer):
    rows = load_from_disk(str(corpus))["train"]
    counts = torch.bincount(torch.tensor([i for row in rows for i in row["input_ids"]]), minlength=len(tokenizer))
    counts[tokenizer.all_special_ids] = 0
    found = unigram_entropy(rows, vocabulary=len(tokenizer), special=tokenizer.all_special_ids)
    assert found == pytest.approx(entropy(counts.numpy()))


@pytest.mark.parametrize(("optimizer", "packed"), [("lamb", True), ("adamw", True), ("adamw", False)])
def test_a_run_learns_and_opens_again(told_text, tmp_path, optimizer, packed):
    rate, epochs = {"lamb": (0.01, 24), "adamw": (6e-3, 12)}[optimizer]
    settings = {**SETTINGS, "epochs": epochs, "optimizer": optimizer, "learning_rate": rate, "packed": packed}
    record = pretrain(told_text, config=CONFIG, output=tmp_path / "encoder", settings=PretrainSettings(**settings))
    result = record.result
    assert result["held_out"][0]["mlm_loss"] < math.log(700)
    # No model gets there that does not look around.
    assert result["held_out_mlm_loss"] < result["unigram_entropy"] - 0.15
    steps = [scores["step"] for scores in result["held_out"]]
    assert steps[-1] == result["steps"]
    assert steps == sorted(set(steps))
    model, report = AutoModelForPreTraining.from_pretrained(tmp_path / "encoder", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.num_parameters() == result["parameters"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "encoder")
    AutoModel.from_pretrained(tmp_path / "encoder")(**tokenizer("good film", "bad cast", return_tensors="pt"))


def test_accumulated_batches_have_the_gradients_of_one(corpus, tmp_path):
    for name, accumulate in (("one", 1), ("four", 4)):
        settings = PretrainSettings(**{**SETTINGS, "accumulate": accumulate})
        pretrain(corpus, config=CONFIG, output=tmp_path / name, settings=settings)
    one, four = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "four"))
    for name, weight in one.items():
        torch.testing.assert_close(four[name], weight, atol=2e-4, rtol=2e-3)


def test_passes_without_an_order_weigh_nothing(corpus):
    """Four passes, of which two have an order to tell: the mean is over two."""
    trainer = AccumulatingTrainer.__new__(AccumulatingTrainer)
    trainer.model = type("Model", (), {"counts_every_label": True})
    trainer.args = type("Arguments", (), {"device": "cpu", "average_tokens_across_devices": True, "world_size": 1})
    batches = [{"sentence_order_label": torch.tensor([label])} for label in (-100, 0, 1, -100)]
    with patch("transformers.Trainer.get_batch_samples", lambda *args: (batches, torch.tensor(9))):
        assert trainer.get_batch_samples() == (batches, 9)
    assert int(trainer.num_sentences) == 2


@pytest.mark.parametrize("optimizer", ["lamb", "adamw"])
def test_what_no_objective_asks_for_stays(text_without_order, tmp_path, optimizer):
    """A gradient of zero would leave LAMB the decay alone, as long a step as any."""
    settings = {**SETTINGS, "optimizer": optimizer, "learning_rate": 0.02}
    pretrain(text_without_order, config=CONFIG, output=tmp_path / "out", settings=PretrainSettings(**settings))
    set_seed(PretrainSettings(**settings).seed)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    start = AlbertPlusForPreTraining(build_config({**CONFIG, **vocabulary_fields(tokenizer)})).state_dict()
    weights = load_file(tmp_path / "out" / "model.safetensors")
    for name in ("albert_plus.pooler.weight", "sentence_order.weight"):
        assert weights[name].equal(start[name]), name
    assert not weights["predictions.dense.weight"].equal(start["predictions.dense.weight"])


def test_layers_computed_again_change_nothing(corpus, tmp_path):
    for name, again in (("kept", False), ("again", True)):
        settings = PretrainSettings(**{**SETTINGS, "checkpoint_layers": again})
        pretrain(corpus, config=CONFIG, output=tmp_path / name, settings=settings)
    kept, again = (load_file(tmp_path / name / "model.safetensors") for name in ("kept", "again"))
    assert all(torch.equal(kept[name], again[name]) for name in kept)


def words(corpus, out, *more):
    sizes = [f"{name}={value}" for name, value in CONFIG.items()]
    return [
        "pretrain", "--corpus", corpus, "--threads", 1, "--out", out, "--epochs", 3, "--batch-size", 8, "--optimizer", "lamb",
        "--learning-rate", 0.01, "--precision", "fp32", "--evaluations", 4,
        *(word for size in sizes for word in ("--set", size)), "--set", "hidden_dropout_prob=0.1", *more,
    ]  # fmt: skip


def test_killed_it_goes_on_to_the_same_weights(corpus, tmp_path):
    """In its second epoch, with dropout, LAMB's means and masks drawn anew."""
    program = """
import sys
from hf_albert_plus.pretraining import stage
whole = stage._Pretraining.__init__
stage._Pretraining.__init__ = lambda self, *given: whole(self, *given[:-1], 0)
from hf_albert_plus.cli import main
sys.argv = ["albert-plus", *sys.argv[1:]]
main()
"""
    command = [sys.executable, "-c", program, *map(str, words(corpus, tmp_path / "killed"))]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    epoch = len(PackedRows(load_from_disk(str(corpus))["train"], width=WIDTH)) // 8
    checkpoints = tmp_path / "killed.partial" / "checkpoints"

    def reached():
        return [path for path in checkpoints.glob("checkpoint-*/complete") if int(path.parent.name[11:]) > epoch + 3]

    while not reached():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.005)
    process.kill()
    process.wait()
    invoke(*words(corpus, tmp_path / "whole"))
    invoke(*words(corpus, tmp_path / "killed"))
    whole, killed = (read_record(tmp_path / name).result for name in ("whole", "killed"))
    assert killed["resumed_at_step"] > epoch
    assert killed["held_out"] == whole["held_out"]
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_from_text_to_a_checkpoint(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join("\n".join(lines) for lines in make_text(count=60)), encoding="utf-8")
    out = tmp_path / "encoder"
    more = ("--vocab-size", 70, "--order", "next-sentence", "--max-length", WIDTH)
    invoke(*words(text, out, *more))
    assert AutoTokenizer.from_pretrained(out).convert_tokens_to_ids("[MASK]") == 4
    labels = load_from_disk(str(tmp_path / "encoder-corpus"))["train"]["sentence_order_label"]
    assert 1 in labels
    answer = json.loads(invoke(*words(text, out, *more), "--json").output[-5000:].partition("{")[2].join(["{", ""]))
    assert answer["reused"]


@pytest.mark.parametrize(
    "option", [("--tokenizer", "here"), ("--max-length", 32), ("--order", "none"), ("--column", "text")]
)
def test_options_for_text_are_refused_where_examples_are_made(corpus, tmp_path, option):
    with pytest.raises(InvalidInput, match=f"{option[0]} must be left out where --corpus is a directory of examples"):
        invoke(*words(corpus, tmp_path / "out", *option))
    assert not (tmp_path / "out").exists()


def log(callback, step, loss, *, max_steps=10_000):
    state = TrainerState(global_step=step, max_steps=max_steps)
    arguments = type("Arguments", (), {"learning_rate": 1e-3})
    callback.on_log(arguments, state, TrainerControl(), logs={"loss": loss})


def test_a_run_that_stays_at_the_frequencies_of_words_is_stopped():
    stuck = StopsDiverging(entropy=7.0, warmup=0.0)
    for step in range(10, 2000, 10):
        log(stuck, step, 7.3)
    with pytest.raises(
        Diverged,
        match=r"no more than the frequencies of words \(7.00\) at step 2000 .* lower --learning-rate \(now 0.001\)",
    ):
        log(stuck, 2000, 7.3)
    learns = StopsDiverging(entropy=7.0, warmup=0.0)
    for step in range(10, 10_000, 10):
        log(learns, step, max(3.0, 8 - step / 500))
    assert learns.best < 3.1
    # The first losses, far above the entropy, are not held against a short run that is below it by then.
    short = StopsDiverging(entropy=7.0, warmup=0.0)
    for step in range(10, 2000, 10):
        log(short, step, 6.7 if step > 200 else 9.5, max_steps=2500)


def test_a_run_that_warms_up_is_waited_for():
    warms_up = StopsDiverging(entropy=7.0, warmup=0.3)
    for step in range(10, 5000, 10):
        log(warms_up, step, 7.3)
    with pytest.raises(Diverged, match="at step 5000"):
        log(warms_up, 5000, 7.3)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_stopped_at(loss):
    watch = StopsDiverging(entropy=7.0, warmup=0.0)
    with pytest.raises(Diverged, match="a loss that is no number at step 10 "):
        log(watch, 10, loss)


def test_a_run_that_goes_on_remembers_its_best():
    resumed = StopsDiverging(entropy=7.0, warmup=0.0)
    state = TrainerState(global_step=3000, max_steps=10_000)
    state.log_history = [{"loss": 4.0, "step": step} for step in range(10, 3000, 10)] + [{"eval_mlm_loss": 4.0}]
    resumed.on_train_begin(None, state, TrainerControl())
    for step in range(3010, 3090, 10):
        log(resumed, step, 6.5)
    with pytest.raises(Diverged, match="above 4.0"):
        log(resumed, 3090, 6.5)


def test_a_run_that_falls_back_is_stopped():
    falls = StopsDiverging(entropy=7.0, warmup=0.0)
    for step in range(10, 3000, 10):
        log(falls, step, 4.0)
    # A single bad batch is none.
    log(falls, 3000, 9.0)

    def falls_back():
        for step in range(3010, 3400, 10):
            log(falls, step, 6.5)

    with pytest.raises(Diverged, match="a rise of more than a nat above 4.0"):
        falls_back()


def test_a_stopped_run_keeps_its_checkpoints(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_albert_plus.pretraining.divergence._LEAST_STEPS", 1)
    monkeypatch.setattr("hf_albert_plus.pretraining.divergence._WINDOW", 2)
    monkeypatch.setattr("hf_albert_plus.pretraining.divergence._PATIENCE", 0.3)
    settings = PretrainSettings(**{**SETTINGS, "epochs": 2, "batch_size": 2, "learning_rate": 1e-9})
    with pytest.raises(Diverged, match="frequencies of words"):
        pretrain(corpus, config=CONFIG, output=tmp_path / "out", settings=settings, checkpoint_seconds=0)
    assert list((tmp_path / "out.partial" / "checkpoints").glob("checkpoint-*/complete"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"optimizer": "sgd"}, "--optimizer must be known, got 'sgd'"),
        ({"masked": "span"}, "--masked must be known, got 'span'; did you mean 'spans'"),
        ({"attention": "flash"}, "--attention must be known, got 'flash'"),
        ({"accumulate": 0}, "--accumulate must be at least 1"),
        ({"accumulate": 3}, "--batch-size must be a multiple of --accumulate, got 16 and 3; use --batch-size 18"),
        ({"cap": 0}, "--cap must be at least 1"),
        ({"copies": 0}, "--copies must be at least 1"),
        ({"longest": 0}, "--longest must be at least 1"),
        ({"evaluations": -1}, "--evaluations must be at least 0"),
        ({"epochs": 0}, "--epochs must be a finite number"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(InvalidInput, match=message):
        PretrainSettings(**{**SETTINGS, **given})


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
    monkeypatch.setattr("transformers.utils.is_flash_attn_2_available", lambda: flash)
    assert fastest_attention(bf16=bf16, packed=packed) == expected


def test_passes_and_processes_share_a_step_evenly(monkeypatch):
    monkeypatch.setattr(stage.processes, "count", lambda: 3)
    settings = PretrainSettings(**{**SETTINGS, "batch_size": 24, "accumulate": 4})
    assert stage.rows_of_a_pass(settings) == 2
    with pytest.raises(InvalidInput, match="multiple of 12, .* got 20; use --batch-size 24"):
        stage.rows_of_a_pass(replace(settings, batch_size=20))


def test_wrong_corpora(corpus, tmp_path, tokenizer_dir):
    for path in (tmp_path, tokenizer_dir):
        with pytest.raises(InvalidInput, match="made by albert-plus corpus build"):
            pretrain(path, config=CONFIG, output=tmp_path / "out", settings=PretrainSettings(**SETTINGS))
    config = {**CONFIG, "max_position_embeddings": 16}
    with pytest.raises(
        InvalidInput, match=r"at most max_position_embeddings \(16\) tokens, got 32; use --set max_position"
    ):
        pretrain(corpus, config=config, output=tmp_path / "out", settings=PretrainSettings(**SETTINGS))


def test_decay_spares_what_the_paper_spares(corpus, tmp_path, monkeypatch):
    """What reaches the optimiser of a run."""
    seen = {}
    monkeypatch.setattr(
        trainer_module,
        "Lamb",
        lambda groups, lr: (
            seen.update(groups=groups, lr=lr) or torch.optim.SGD([p for g in groups for p in g["params"]], lr=lr)
        ),
    )
    settings = PretrainSettings(**{**SETTINGS, "optimizer": "lamb", "learning_rate": 0.01, "weight_decay": 0.02})
    pretrain(corpus, config=CONFIG, output=tmp_path / "out", settings=settings)
    assert [group["weight_decay"] for group in seen["groups"]] == [0.02, 0.0]
    assert seen["lr"] == 0.01


def test_steps_are_timed_against_transformers(corpus, monkeypatch):
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


def test_batches_of_the_bench_count_real_tokens(corpus, tokenizer):
    rows = load_from_disk(str(corpus))["train"]
    batches = pretraining_step._Batches(rows, pretraining_step._usual_collator(tokenizer), 8)
    batch, tokens = next(iter(batches))
    assert int(batch["attention_mask"].sum()) == tokens
    packed = pretraining_step._Batches(PackedRows(rows, width=WIDTH), make_collator(tokenizer, packed=True), 4)
    batch, tokens = next(iter(packed))
    assert int((batch["sequence_ids"] > 0).sum()) == tokens


def test_a_run_in_bf16_learns_as_one_in_fp32(corpus, tmp_path):
    """Their attention is another one, and their products round."""
    for precision in ("fp32", "bf16"):
        settings = PretrainSettings(**{**SETTINGS, "precision": precision, "epochs": 3})
        pretrain(corpus, config=CONFIG, output=tmp_path / precision, settings=settings)
    losses = {name: read_record(tmp_path / name).result["held_out_mlm_loss"] for name in ("fp32", "bf16")}
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)


def test_curves_for_tensorboard(corpus, tmp_path):
    """The scores of the record, read back from the event file, record by record: length, checksum, bytes, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    record = pretrain(corpus, config=CONFIG, output=tmp_path / "out", settings=PretrainSettings(**SETTINGS))
    (file,) = (tmp_path / "out" / "runs").iterdir()
    data, place, curves = file.read_bytes(), 0, {}
    while place < len(data):
        length = int.from_bytes(data[place : place + 8], "little")
        event = Event.FromString(data[place + 12 : place + 12 + length])
        place += length + 16
        for value in event.summary.value:
            curves.setdefault(value.tag, {})[event.step] = value.simple_value
    for name in ("mlm_loss", "mlm_accuracy", "order_accuracy"):
        expected = {scores["step"]: scores[name] for scores in record.result["held_out"]}
        assert curves[f"eval/{name}"] == pytest.approx(expected, rel=1e-6)
    assert {"train/loss", "train/learning_rate", "train/grad_norm"} <= set(curves)
    assert list(curves["train/loss"]) == [10, 20]
