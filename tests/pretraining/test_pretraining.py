"""Pretraining: batches against the examples they are made of, scores against one row at a time, runs killed, accumulated and on
two processes against plain ones."""

import json
import math
import os
import subprocess
import sys
import time
from unittest.mock import patch

import pytest
import torch
from datasets import load_from_disk
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer, set_seed

from hf_albert_plus.config_building import build_config, vocabulary_fields
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.pretraining import trainer as trainer_module
from hf_albert_plus.pretraining.batches import PackedRows
from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.pretraining.stage import pretrain
from hf_albert_plus.records.record import read_record
from hf_albert_plus.training.loop import AccumulatingTrainer
from tests.support.command_line import invoke
from tests.support.corpora import as_text, built_corpus, make_text
from tests.support.event_files import curves_in
from tests.support.pretraining import CONFIG, SETTINGS, WIDTH, words
from tests.support.processes import running


@pytest.fixture(scope="module")
def told_text(tokenizer_dir, tmp_path_factory):
    """Words that tell each other: a sentence goes on with the alphabet where the one before stopped."""
    directory, letters = tmp_path_factory.mktemp("told"), "abcdefghijklmnopqrstuvwxyz"
    documents = [
        [" ".join(letters[(start + 4 * line + place) % 26] for place in range(4)) + "." for line in range(5)]
        for start in range(26)
        for _ in range(12)
    ]
    return built_corpus(documents, directory, tokenizer_dir, language="none")


@pytest.fixture(scope="module")
def text_without_order(tokenizer_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("without-order")
    return built_corpus(make_text(count=120), directory, tokenizer_dir, order="none")


@pytest.mark.parametrize(
    ("optimizer", "packed"), [("lamb", True), pytest.param("adamw", True, marks=pytest.mark.slow), ("adamw", False)]
)
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_layers_computed_again_change_nothing(corpus, tmp_path):
    for name, again in (("kept", False), ("again", True)):
        settings = PretrainSettings(**{**SETTINGS, "checkpoint_layers": again})
        pretrain(corpus, config=CONFIG, output=tmp_path / name, settings=settings)
    kept, again = (load_file(tmp_path / name / "model.safetensors") for name in ("kept", "again"))
    assert all(torch.equal(kept[name], again[name]) for name in kept)


@pytest.mark.slow
def test_killed_it_goes_on_to_the_same_weights(corpus, tmp_path):
    """In its second epoch, with dropout, LAMB's means and masks drawn anew."""
    program = """
import sys
from hf_albert_plus.pretraining import stage
run_trainer = stage.run_trainer
stage.run_trainer = lambda trainer, **options: run_trainer(trainer, **{**options, "checkpoint_seconds": 0})
from hf_albert_plus.cli import main
sys.argv = ["albert-plus", *sys.argv[1:]]
main()
"""
    command = [sys.executable, "-c", program, *map(str, words(corpus, tmp_path / "killed"))]
    epoch = len(PackedRows(load_from_disk(str(corpus))["train"], width=WIDTH)) // 8
    checkpoints = tmp_path / "killed.partial" / "checkpoints"

    def reached():
        return [path for path in checkpoints.glob("checkpoint-*/complete") if int(path.parent.name[11:]) > epoch + 3]

    with running(command, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
        while not reached():
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.005)
        process.kill()
    invoke(*words(corpus, tmp_path / "whole"))
    invoke(*words(corpus, tmp_path / "killed"))
    whole, killed = (read_record(tmp_path / name).result for name in ("whole", "killed"))
    assert killed["resumed_at_step"] > epoch
    assert killed["held_out"] == whole["held_out"]
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_from_text_to_a_checkpoint(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(as_text(make_text(count=60)), encoding="utf-8")
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"optimizer": "sgd"}, "--optimizer must be one of .*, got 'sgd'"),
        ({"masked": "span"}, "--masked must be one of .*, got 'span'; did you mean 'spans'"),
        ({"attention": "flash"}, "--attention must be one of .*, got 'flash'"),
        ({"accumulate": 0}, "--accumulate must be at least 1"),
        ({"accumulate": 3}, "--batch-size must be a multiple of --accumulate, got 16 and 3; use --batch-size 18"),
        ({"cap": 0}, "--cap must be at least 1"),
        ({"copies": 0}, "--copies must be at least 1"),
        ({"longest": 0}, "--longest must be at least 1"),
        ({"evaluations": -1}, "--evaluations must be at least 0"),
        ({"epochs": 0}, "--epochs must be above 0 and at most 1,000,000, got 0"),
    ],
)
def test_wrong_settings(given, message):
    with pytest.raises(InvalidInput, match=message):
        PretrainSettings(**{**SETTINGS, **given})


def test_wrong_corpora(corpus, tmp_path, tokenizer_dir):
    for path in (tmp_path, tokenizer_dir):
        with pytest.raises(InvalidInput, match="made by albert-plus corpus build"):
            pretrain(path, config=CONFIG, output=tmp_path / "out", settings=PretrainSettings(**SETTINGS))
    config = {**CONFIG, "max_position_embeddings": 16}
    with pytest.raises(
        InvalidInput, match=r"at most max_position_embeddings \(16\) tokens, got 32; use --set max_position"
    ):
        pretrain(corpus, config=config, output=tmp_path / "out", settings=PretrainSettings(**SETTINGS))


@pytest.mark.slow
def test_decay_spares_what_the_paper_spares(corpus, tmp_path, monkeypatch):
    """What reaches the optimiser of a run."""
    seen = {}
    monkeypatch.setattr(
        trainer_module,
        "Lamb",
        lambda groups, lr, **more: (
            seen.update(groups=groups, lr=lr, **more)
            or torch.optim.SGD([p for g in groups for p in g["params"]], lr=lr)
        ),
    )
    settings = PretrainSettings(**{**SETTINGS, "optimizer": "lamb", "learning_rate": 0.01, "weight_decay": 0.02})
    pretrain(corpus, config=CONFIG, output=tmp_path / "out", settings=settings)
    assert [group["weight_decay"] for group in seen["groups"]] == [0.02, 0.0]
    assert (seen["lr"], seen["betas"], seen["eps"]) == (0.01, (0.9, 0.999), 1e-6)


@pytest.mark.slow
def test_a_run_in_bf16_learns_as_one_in_fp32(corpus, tmp_path):
    """Their attention is another one, and their products round."""
    for precision in ("fp32", "bf16"):
        settings = PretrainSettings(**{**SETTINGS, "precision": precision, "epochs": 3})
        pretrain(corpus, config=CONFIG, output=tmp_path / precision, settings=settings)
    losses = {name: read_record(tmp_path / name).result["held_out_mlm_loss"] for name in ("fp32", "bf16")}
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=0.02)


@pytest.mark.slow
def test_curves_for_tensorboard(corpus, tmp_path):
    """The scores of the record, read back from the event file."""
    settings = PretrainSettings(**SETTINGS, report_to=("tensorboard",))
    record = pretrain(corpus, config=CONFIG, output=tmp_path / "out", settings=settings)
    curves = curves_in(tmp_path / "out" / "runs")
    for name in ("mlm_loss", "mlm_accuracy", "order_accuracy"):
        expected = {scores["step"]: scores[name] for scores in record.result["held_out"]}
        assert curves[f"eval/{name}"] == pytest.approx(expected, rel=1e-6)
    assert {"train/loss", "train/learning_rate", "train/grad_norm"} <= set(curves)
    assert list(curves["train/loss"]) == [10, 20]
