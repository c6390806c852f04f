"""Zeros that come while an encoder is pretrained and stay through all that follows: the schedule against the paper's formula, counts by
hand, a run that is stopped and goes on, and what fine-tuning makes of it."""

import math

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, TrainerState

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining, AlbertPlusModel
from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.pretraining.stage import pretrain
from hf_albert_plus.records.record import read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training import loop
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.settings import TrainSettings, ZeroSettings
from hf_albert_plus.training.zeros import KeepsZeros, StaysSparse, Zeros, matrices
from tests.support.command_line import invoke
from tests.support.pretraining import CONFIG, SETTINGS, words
from tests.support.small_models import randomise, small_config
from tests.support.stopped_runs import Stops, outcome

TUNED = TrainSettings(epochs=1, batch_size=16, learning_rate=1e-3, max_length=32, precision="fp32")


def _shares(steps, **settings):
    """The share of zeros after each step of a training of one matrix, whose weights move at random."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(100, 100))
    sparse = StaysSparse({"w": weight}, settings=ZeroSettings(epochs=1, batch_size=1, **settings))
    state, shares = TrainerState(max_steps=steps), []
    sparse.on_train_begin(None, state, None)
    for state.global_step in range(steps):
        with torch.no_grad():
            weight.add_(0.1 * torch.randn_like(weight))
        sparse.on_optimizer_step(None, state, None)
        shares.append(float((weight == 0).double().mean()))
    return shares


@pytest.mark.parametrize("sparsity", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("ramp", [0.25, 0.5, 1.0])
def test_the_schedule_is_zhus_and_guptas(sparsity, ramp):
    """s_t = s_f + (s_i - s_f)·(1 - (t - t_0)/(nΔt))³ with s_i = 0 and t_0 = 0, at each of the steps up to the ramp's end, and s_f after."""
    steps = 40
    last = round(ramp * steps)
    for step, share in enumerate(_shares(steps, sparsity=sparsity, ramp=ramp), start=1):
        expected = sparsity + (0 - sparsity) * (1 - step / last) ** 3 if step <= last else sparsity
        assert -1e-6 < 10_000 * (expected - share) < 1 + 1e-6, step  # of 10,000 weights, rounded down


def test_a_long_schedule_grows_a_hundred_times():
    shares = _shares(1000, sparsity=0.8, ramp=1.0)
    grown = [step for step in range(2, 1001) if shares[step - 1] != shares[step - 2]]
    assert set(grown) <= set(range(10, 1001, 10))
    assert len(grown) > 90
    assert shares[499] == pytest.approx(0.8 * (1 - 0.5**3), abs=1e-4)
    assert shares[-1] == pytest.approx(0.8, abs=1e-4)


def test_a_matrix_that_begins_at_zero_learns():
    """The differences of layers from a shared block do: they are no weights that were pruned."""
    model = AlbertPlusModel(small_config(layer_rank=2))
    weights = matrices(model)
    begun = [name for name, weight in weights.items() if not weight.any()]
    assert begun
    keeps = KeepsZeros(weights)
    keeps.on_train_begin(None, TrainerState(), None)
    assert all(keeps.masks[name].all() for name in begun)
    assert not Zeros.of(weights).is_sparse


def _zeros(directory):
    """Where each matrix of a saved encoder is zero; heads left out."""
    state = load_file(directory / "model.safetensors")
    kept = {name.removeprefix("albert_plus."): tensor for name, tensor in state.items() if tensor.ndim == 2}
    return {
        name: tensor == 0 for name, tensor in kept.items() if name.startswith(("embeddings.", "encoder.", "pooler."))
    }


def _share(masks):
    return sum(int(mask.sum()) for mask in masks.values()) / sum(mask.numel() for mask in masks.values())


@pytest.fixture(scope="module")
def pruned(corpus, tmp_path_factory):
    """An encoder whose pretraining ended with 60 % of zeros."""
    out = tmp_path_factory.mktemp("pruned") / "encoder"
    settings = PretrainSettings(**{**SETTINGS, "epochs": 2, "sparsity": 0.6, "ramp": 1.0})
    return pretrain(corpus, config=CONFIG, output=out, settings=settings), out


@pytest.mark.slow
def test_pretraining_ends_with_the_zeros_that_were_asked_for(pruned):
    record, out = pruned
    masks = _zeros(out)
    for name, mask in masks.items():
        assert int(mask.sum()) == math.floor(0.6 * mask.numel()), name
    state = load_file(out / "model.safetensors")
    assert state["predictions.dense.weight"].all()
    assert record.result["zeros_of_matrices"] == pytest.approx(_share(masks), abs=5e-5)
    zeros = sum(int(mask.sum()) for mask in masks.values())
    assert record.result["zeros_of_parameters"] == pytest.approx(zeros / record.result["parameters"], abs=5e-5)
    assert (record.settings["sparsity"], record.settings["schedule"], record.settings["ramp"]) == (0.6, "cubic", 1.0)


def test_without_sparsity_nothing_is_said_of_zeros():
    assert not {"sparsity", "schedule", "ramp"} & set(PretrainSettings(**SETTINGS).describe())


@pytest.mark.slow
def test_stopped_it_goes_on_with_its_zeros(corpus, tmp_path, monkeypatch):
    """Stopped twice on the ramp, it ends as a run that was let alone: the same zeros, the same weights, the same record."""
    settings = PretrainSettings(**{**SETTINGS, "epochs": 0.8, "sparsity": 0.7, "ramp": 0.8})
    whole = pretrain(corpus, config=CONFIG, output=tmp_path / "whole", settings=settings)
    monkeypatch.setattr(loop, "Checkpoints", Stops)
    monkeypatch.setattr(Stops, "steps", [3, 7])
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            pretrain(corpus, config=CONFIG, output=tmp_path / "stopped", settings=settings)
    checkpoints = sorted(
        (tmp_path / "stopped.partial" / "checkpoints").glob("checkpoint-*"), key=lambda path: int(path.name[11:])
    )
    on_the_way = _zeros(checkpoints[-1])
    assert 0.1 < _share(on_the_way) < 0.7
    again = pretrain(corpus, config=CONFIG, output=tmp_path / "stopped", settings=settings)
    assert again.result["resumed_at_step"] == 7
    assert outcome(again.result) == outcome(whole.result)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    masks = _zeros(tmp_path / "stopped")
    assert all((masks[name] | ~mask).all() for name, mask in on_the_way.items()), "a zero stays one"


@pytest.mark.slow
def test_pretraining_goes_on_from_a_model(pruned, corpus, tmp_path):
    """Its zeros stay, and more come; the other weights start where they were."""
    _, out = pruned
    settings = PretrainSettings(**{**SETTINGS, "epochs": 0.5, "sparsity": 0.8, "ramp": 1.0})
    record = pretrain(corpus, config={}, output=tmp_path / "more", settings=settings, model=str(out))
    before, after = _zeros(out), _zeros(tmp_path / "more")
    assert all((after[name] | ~before[name]).all() for name in before)
    assert _share(after) == pytest.approx(0.8, abs=1e-3)
    assert set(record.parents) == {"corpus", "model"}
    still = PretrainSettings(**{**SETTINGS, "epochs": 0.05, "learning_rate": 1e-9})
    pretrain(corpus, config={}, output=tmp_path / "still", settings=still, model=str(out))
    one, other = (load_file(path / "model.safetensors") for path in (out, tmp_path / "still"))
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)


@pytest.mark.slow
def test_an_encoder_without_a_head_gets_one(corpus, corpus_tokenizer, tmp_path):
    """It keeps its weights, and the head learns beside them."""
    encoder = AlbertPlusModel(small_config(vocab_size=len(corpus_tokenizer)))
    encoder.save_pretrained(tmp_path / "encoder")
    corpus_tokenizer.save_pretrained(tmp_path / "encoder")
    still = PretrainSettings(**{**SETTINGS, "epochs": 0.05, "learning_rate": 1e-9})
    pretrain(corpus, config={}, output=tmp_path / "out", settings=still, model=str(tmp_path / "encoder"))
    made = load_file(tmp_path / "out" / "model.safetensors")
    for name, weight in encoder.state_dict().items():
        if not name.startswith("pooler."):
            assert torch.allclose(made[f"albert_plus.{name}"], weight, atol=1e-6), name
    assert made["predictions.dense.weight"].std() == pytest.approx(encoder.config.initializer_range, rel=0.2)


def test_what_cannot_go_on_is_refused(corpus, classifier_dir, encoder_dir, corpus_tokenizer, tmp_path):
    settings = PretrainSettings(**SETTINGS)
    for model, message in (
        (classifier_dir, "with a head for words or without one, got a AlbertPlusForSequenceClassification"),
        (encoder_dir, "with a head for words or without one, got a BertModel"),
    ):
        with pytest.raises(InvalidInput, match=message):
            pretrain(corpus, config={}, output=tmp_path / "out", settings=settings, model=str(model))
    other = corpus_tokenizer.train_new_from_iterator(["a text of other words"], vocab_size=60)
    AlbertPlusForPreTraining(small_config(vocab_size=len(other))).save_pretrained(tmp_path / "other")
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(InvalidInput, match="--model must have the vocabulary of the corpus, got another one"):
        pretrain(corpus, config={}, output=tmp_path / "out", settings=settings, model=str(tmp_path / "other"))
    with pytest.raises(InvalidInput, match="goes with neither --variant nor --set, got --set hidden_size=8"):
        invoke("pretrain", "--corpus", corpus, "--model", tmp_path, "--set", "hidden_size=8", "--out", tmp_path / "out")
    for wrong in (1.0, -0.1):
        with pytest.raises(InvalidInput, match="--sparsity must be a share from 0 up to, not including, 1"):
            PretrainSettings(**{**SETTINGS, "sparsity": wrong})


@pytest.mark.slow
def test_the_command_line_prunes_what_it_pretrains(corpus, tmp_path):
    invoke(*words(corpus, tmp_path / "out", "--epochs", 0.3, "--sparsity", 0.5, "--schedule", "one-shot"))
    result = read_record(tmp_path / "out").result
    assert result["zeros_of_matrices"] == pytest.approx(0.5, abs=1e-3)


@pytest.mark.slow
def test_fine_tuning_keeps_the_zeros_of_pretraining(pruned, data_dir, tmp_path):
    _, out = pruned
    record = finetune(str(out), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "tuned", settings=TUNED)
    before, after = _zeros(out), _zeros(tmp_path / "tuned")
    assert all(torch.equal(after[name], mask) for name, mask in before.items())
    assert record.result["zeros_of_matrices"] == pytest.approx(0.6, abs=1e-3)
    one, other = (load_file(path / "model.safetensors") for path in (out, tmp_path / "tuned"))
    name = "albert_plus.encoder.attention.0.query.weight"
    assert not torch.equal(one[name], other[name]), "the rest is trained"
    invoke(
        "finetune", "--model", out, "--data", data_dir, "--task", "sst2", "--epochs", 1, "--max-length", 32, "--no-keep-zeros",
        "--learning-rate", 1e-3, "--precision", "fp32", "--out", tmp_path / "grown",
    )  # fmt: skip
    grown = _zeros(tmp_path / "grown")
    # The rows of pieces and positions that the task never reads stay as they are.
    assert _share({name: mask for name, mask in grown.items() if "encoder." in name}) < 0.01
    record = read_record(tmp_path / "grown")
    assert record.settings["keep_zeros"] is False
    assert "zeros_of_matrices" not in record.result


@pytest.mark.slow
def test_a_dense_encoder_is_fine_tuned_as_ever(encoder_dir, data_dir, tmp_path):
    record = finetune(
        str(encoder_dir), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "tuned", settings=TUNED
    )
    assert "zeros_of_matrices" not in record.result
    assert "keep_zeros" not in record.settings


def test_shares_of_zeros_by_hand():
    weights = {"a": torch.tensor([[0.0, 1.0], [2.0, 0.0]]), "b": torch.zeros(3, 3), "c": torch.ones(2, 2)}
    assert Zeros.of(weights) == Zeros(weights=8, zeros=2)
    assert Zeros.of(weights).describe(parameters=20) == {"zeros_of_matrices": 0.25, "zeros_of_parameters": 0.1}
    assert not Zeros.of({"a": randomise(torch.nn.Linear(30, 30)).weight}).is_sparse


@pytest.mark.slow
def test_a_tokenizer_comes_from_the_model_that_goes_on(pruned, tmp_path):
    """Text becomes examples by the model's own words."""
    _, out = pruned
    text = tmp_path / "text.txt"
    text.write_text("a good film.\nthe cast is bad.\n\nan old plot.\nit is long.\n" * 40)
    invoke(
        "pretrain", "--corpus", text, "--model", out, "--max-length", 32, "--held-out", 0, "--epochs", 0.2, "--batch-size", 8,
        "--precision", "fp32", "--out", tmp_path / "on",
    )  # fmt: skip
    assert AutoTokenizer.from_pretrained(tmp_path / "on").get_vocab() == AutoTokenizer.from_pretrained(out).get_vocab()
    assert not (tmp_path / "on-tokenizer").exists()
