"""Heads and columns removed: importances against the definition, one gate at a time; the smaller model against the whole one with
zeros; exports of uneven blocks; and weights set to zero."""

import json
import math
from itertools import pairwise

import numpy
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerState

from hf_albert_plus.compression.importance import Gates, Site, movement, sites, taylor
from hf_albert_plus.compression.pruning import prune, select, without
from hf_albert_plus.compression.settings import PruneSettings, SparsifySettings
from hf_albert_plus.compression.sparsity import sparsify
from hf_albert_plus.configuration_albert_plus import AlbertPlusConfig
from hf_albert_plus.conversion.stage import convert
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from hf_albert_plus.records.record import read_record
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.training.zeros import StaysSparse, cubic, mask_of
from tests.support.command_line import invoke
from tests.support.small_models import pair_inputs, randomise, small_config

SHARINGS = {
    "all shared": {},
    "none shared": {"attention_sharing": "none", "ffn_sharing": "none"},
    "attention in groups": {"attention_sharing": 2, "ffn_sharing": "none"},
    "relative positions": {"relative_attention_buckets": 8, "attention_sharing": 2},
    "inverted bottleneck": {"bottleneck_size": 48, "query_key_bottleneck": False},
    "bottleneck, networks in a row": {"bottleneck_size": 16, "num_feedforward_networks": 2, "norm_type": "no_norm"},
}
every_sharing = pytest.mark.parametrize("fields", SHARINGS.values(), ids=SHARINGS)


def classifier(**fields):
    return randomise(AlbertPlusForSequenceClassification(small_config(classifier_dropout_prob=0.0, **fields))).double()


def batch_of(model):
    inputs = pair_inputs(model.config.vocab_size)
    return {**inputs, "labels": torch.arange(len(inputs["input_ids"])) % 2}


def losses(model, batch, *, site, group, call, factor):
    """Each example's loss with one head or column of one call multiplied by `factor`."""
    product, size = sites(model.base_model.encoder)[site]
    calls = iter(range(100))

    def scale(module, inputs):
        (hidden,) = inputs
        if next(calls) != call:
            return None
        hidden = hidden.clone()
        hidden[..., group * size : (group + 1) * size] *= factor
        return (hidden,)

    hook = product.register_forward_pre_hook(scale)
    with torch.no_grad():
        logits = model(**{name: value for name, value in batch.items() if name != "labels"}).logits
    hook.remove()
    return torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="none")


@every_sharing
def test_importances_are_derivatives_of_each_examples_loss(fields):
    """Against central differences, one gate of one call at a time: |·| for every example and call before the sum."""
    model = classifier(**fields)
    batch = batch_of(model)
    config, step = model.config, 1e-5
    with Gates().on(model.base_model.encoder) as gates:
        (model(**batch).loss * len(batch["labels"])).backward()
        gradients = gates.take()
    for site, found in taylor(gradients).items():
        calls = (config.attention_map if site.kind == "attention" else config.ffn_map).count(site.block)
        assert gradients[site].shape[0] == calls
        for group in (0, len(found) - 1):
            expected = 0.0
            for call in range(calls):
                up, down = (
                    losses(model, batch, site=site, group=group, call=call, factor=1 + d) for d in (step, -step)
                )
                expected += float(((up - down) / (2 * step)).abs().sum())
            assert float(found[group]) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_movement_is_minus_weights_times_gradients():
    """Σ w·∂L/∂w of the rows that make a head or column, over its products (biases too), from torch's own gradients."""
    model = classifier(attention_sharing=2, ffn_sharing="none")
    batch = batch_of(model)
    with Gates().on(model.base_model.encoder) as gates:
        model(**batch).loss.backward()
        found = movement(gates.take())
    for site, (product, size) in sites(model.base_model.encoder).items():
        # The columns that read a head: its gate scales them all.
        expected = -(product.weight * product.weight.grad).sum(0).view(-1, size).sum(1)
        torch.testing.assert_close(found[site], expected, rtol=1e-9, atol=1e-12)


def test_gates_change_nothing_and_leave_nothing():
    model = classifier()
    batch = batch_of(model)
    expected = model(**batch).logits
    with Gates().on(model.base_model.encoder) as gates:
        torch.testing.assert_close(model(**batch).logits, expected, rtol=0, atol=0)
        with torch.no_grad():
            model(**batch)
        assert {len(calls) for calls in gates.given.values()} == {4}
    assert not any(product._forward_pre_hooks for product, _ in sites(model.base_model.encoder).values())


@every_sharing
@pytest.mark.parametrize("keep", ["uneven", "even"])
def test_the_smaller_model_computes_what_zeros_would(fields, keep, tmp_path):
    model = classifier(**fields)
    random = numpy.random.default_rng(0)
    kept = {}
    for site, (product, size) in sites(model.base_model.encoder).items():
        groups = product.in_features // size
        count = groups // 2 if keep == "even" else 1 + (site.block * 7 + 2) % (groups - 1)
        kept[site] = torch.from_numpy(numpy.sort(random.choice(groups, count, replace=False)))
    smaller = without(model, kept)
    for site, (product, size) in sites(model.base_model.encoder).items():
        gone = torch.ones(product.in_features // size, dtype=torch.bool)
        gone[kept[site]] = False
        with torch.no_grad():
            product.weight[:, gone.repeat_interleave(size)] = 0
    batch = batch_of(model)
    with torch.no_grad():
        torch.testing.assert_close(smaller(**batch).logits, model(**batch).logits, rtol=1e-9, atol=1e-9)
    assert (smaller.config.block_intermediate_sizes is None) == (
        keep == "even" or len(model.base_model.encoder.ffn) == 1
    )
    smaller.float().save_pretrained(tmp_path)
    again = AlbertPlusForSequenceClassification.from_pretrained(tmp_path)
    assert again.config.attention_heads == smaller.config.attention_heads
    with torch.no_grad():
        torch.testing.assert_close(again.eval()(**batch).logits, smaller(**batch).logits)
    assert again.num_parameters() < model.num_parameters()


def test_selection_by_hand():
    first, second = Site("ffn", 0), Site("ffn", 1)
    scores = {first: torch.tensor([4.0, 1.0, 3.0, 2.0]), second: torch.tensor([0.4, 0.1, 30.0, 0.2])}
    half = {site: kept.tolist() for site, kept in select(scores, remove=0.5, spread="block").items()}
    assert half == {first: [0, 2], second: [0, 2]}
    # Over both, by norms sqrt(30) and about 30: the second's largest and the first's all but none stay.
    shares = {site: kept.tolist() for site, kept in select(scores, remove=0.5, spread="model").items()}
    assert shares == {first: [0, 2, 3], second: [2]}
    # Of four columns, multiples of two: three become four.
    assert [len(kept) for kept in select(scores, remove=0.5, spread="model", multiple_of=2).values()] == [4, 2]
    # One stays, whatever the share.
    assert [len(kept) for kept in select(scores, remove=0.99, spread="block").values()] == [1, 1]
    # Networks in a row keep as many as each other.
    stacked = {Site("ffn", 0, 0): torch.tensor([9.0, 8.0, 7.0]), Site("ffn", 0, 1): torch.tensor([1.0, 0.0, 0.0])}
    assert {len(kept) for kept in select(stacked, remove=0.5, spread="model").values()} == {2}


@pytest.mark.parametrize("importance", ["taylor", pytest.param("movement", marks=pytest.mark.slow)])
def test_a_pruned_classifier_is_a_classifier(importance, teachers, data_dir, tmp_path):
    """From a model of transformers' to a directory that every verb reads, exported, and recovered by distilling."""
    settings = PruneSettings(epochs=0.3, batch_size=8, max_length=32, precision="fp32", heads=0.5, columns=0.5, examples=24,
                             multiple_of=4, importance=importance)  # fmt: skip
    out = tmp_path / "pruned"
    record = prune(str(teachers / "sst2"), data=str(data_dir), task=get_task("sst2"), output=out, settings=settings)
    result = record.result
    assert result["heads_removed"] == 0.5
    assert 0.3 < result["columns_removed"] < 0.7
    config = AlbertPlusConfig.from_pretrained(out)
    assert sum(config.attention_heads) == result["heads"] == result["heads_before"] / 2
    assert all(size % 4 == 0 for size in config.intermediate_sizes)
    stored = sum(tensor.numel() for tensor in load_file(out / "model.safetensors").values())
    assert stored == result["parameters"] < result["parameters_before"]
    invoke("distill", "--method", "kd", "--teacher", teachers / "sst2", "--student", out, "--data", data_dir, "--task", "sst2",
           "--epochs", 0.3, "--max-length", 32, "--precision", "fp32", "--out", tmp_path / "again")  # fmt: skip
    assert AlbertPlusConfig.from_pretrained(tmp_path / "again").block_attention_heads == config.block_attention_heads
    invoke("export", tmp_path / "again", "--to", "onnx", "--to", "onnx-int8", "--out", tmp_path / "exported")
    trained = json.loads((tmp_path / "exported" / "record.json").read_text())["result"]["trained"]
    assert trained["stage"] == "distill"
    invoke("eval", f"{tmp_path / 'exported'}:onnx-int8", tmp_path / "exported", "--task", "sst2", "--data", data_dir, "--max-length",
           32)  # fmt: skip


def test_cubic_by_hand():
    assert [round(cubic(t, sparsity=0.8), 4) for t in (0, 0.25, 0.5, 1, 2)] == [0, 0.4625, 0.7, 0.8, 0.8]


def test_the_smallest_weights_of_a_matrix():
    weight = torch.tensor([[0.5, -0.1, 0.1], [3.0, -2.0, 0.0]])
    assert mask_of(weight, sparsity=0.5).tolist() == [[True, False, False], [True, True, False]]
    assert mask_of(weight, sparsity=0.1).all()


def test_zeros_that_were_there_stay_while_the_schedule_asks_for_fewer():
    weight = torch.nn.Parameter(torch.tensor([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]))
    sparse = StaysSparse({"w": weight}, settings=SparsifySettings(epochs=1, batch_size=1, sparsity=0.5, ramp=1.0))
    state = TrainerState(max_steps=4)
    sparse.on_train_begin(None, state, None)
    zeros = []
    for state.global_step in range(4):
        with torch.no_grad():
            weight.add_(0.01)  # a step moves all
        sparse.on_optimizer_step(None, state, None)
        zeros.append((weight == 0).tolist())
    assert all(row[:3] == [True] * 3 for row in zeros)
    assert [sum(row) for row in zeros] == [3, 3, 3, 4]


def test_importance_is_summed_in_fp32():
    """In bf16 a sum of 4,096 thousandths stops at a half."""
    gradients = {Site("ffn", 0): torch.full((1, 4096, 2), 1e-3, dtype=torch.bfloat16)}
    for measure, sign in ((taylor, 1), (movement, -1)):
        total = measure(gradients)[Site("ffn", 0)]
        assert total.dtype == torch.float32
        torch.testing.assert_close(total, torch.full((2,), sign * 4.096), rtol=1e-2, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["cubic", "one-shot"])
def test_zeros_of_every_matrix_stay_through_fine_tuning(schedule, encoder_dir, data_dir, tmp_path, monkeypatch):
    seen = []
    keep = StaysSparse._keep

    def watched(self):
        keep(self)
        seen.append({name: (weight == 0).clone() for name, weight in self.weights.items()})

    monkeypatch.setattr(StaysSparse, "_keep", watched)
    settings = SparsifySettings(epochs=2, batch_size=8, max_length=32, learning_rate=1e-3, precision="fp32", sparsity=0.6,
                                schedule=schedule)  # fmt: skip
    record = sparsify(
        str(encoder_dir), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "s", settings=settings
    )
    state = load_file(tmp_path / "s" / "model.safetensors")
    for name, tensor in state.items():
        zeros = float((tensor == 0).float().mean())
        if name.endswith("weight") and tensor.ndim == 2 and "classifier" not in name:
            assert zeros == pytest.approx(math.floor(0.6 * tensor.numel()) / tensor.numel(), abs=2e-3), name
        elif name.endswith("bias"):
            assert zeros < 0.5
    for before, after in pairwise(seen):
        assert all((after[name] | ~before[name]).all() for name in before)  # a zero stays one
    shares = [float(torch.cat([m.flatten() for m in masks.values()]).float().mean()) for masks in seen]
    assert shares[0] == pytest.approx(0.6, abs=0.01) if schedule == "one-shot" else shares[0] < 0.2
    assert record.result["zeros_of_matrices"] == pytest.approx(0.6, abs=0.01)
    # No smaller for it.
    assert (tmp_path / "s" / "model.safetensors").stat().st_size > 4 * record.result["parameters"]


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (PruneSettings, {"heads": 1.0}, "--heads must be a share from 0 up to, not including, 1, got 1.0"),
        (
            PruneSettings,
            {"heads": 0, "columns": 0},
            "--heads or --columns must be above 0, or --depth be given, got 0 for both; use",
        ),
        (PruneSettings, {"depth": 0}, "--depth must be at least 1, got 0"),
        (
            PruneSettings,
            {"importance": "tailor"},
            "--importance must be one of .*, got 'tailor'; did you mean 'taylor'",
        ),
        (PruneSettings, {"spread": "layers"}, "--spread must be one of "),
        (PruneSettings, {"examples": 0}, "--examples must be at least 1"),
        (PruneSettings, {"multiple_of": 0}, "--multiple-of must be at least 1"),
        (SparsifySettings, {"sparsity": 1.0}, "--sparsity must be a share between 0 and 1, got 1.0"),
        (
            SparsifySettings,
            {"schedule": "one shot"},
            "--schedule must be one of .*, got 'one shot'; did you mean 'one-shot'",
        ),
        (SparsifySettings, {"ramp": 0}, "--ramp must be a share above 0"),
    ],
)
def test_wrong_settings(kind, given, message):
    with pytest.raises(InvalidInput, match=message):
        kind(epochs=1, batch_size=8, **given)


def test_a_classifier_of_another_task_is_refused(teachers, data_dir, tmp_path):
    with pytest.raises(InvalidInput, match="--model must be a classifier with the 1 labels of stsb, got .* with 2"):
        prune(str(teachers / "sst2"), data=str(data_dir), task=get_task("stsb"), output=tmp_path / "p",
              settings=PruneSettings(epochs=1, batch_size=8))  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_layers_that_differ_from_their_block_are_pruned_first(teachers, data_dir, tmp_path):
    convert(str(teachers / "sst2"), output=tmp_path / "relaxed", overrides={"layer_rank": 2})
    settings = {"epochs": 1, "batch_size": 8, "max_length": 32, "examples": 16}
    given = {"data": str(data_dir), "task": get_task("sst2")}
    with pytest.raises(InvalidInput, match="the same in all of their layers, got layer_rank 2 .* prune first, then"):
        prune(str(tmp_path / "relaxed"), **given, output=tmp_path / "p", settings=PruneSettings(**settings))
    depth = {"heads": 0.0, "columns": 0.0, "depth": 1}
    prune(str(tmp_path / "relaxed"), **given, output=tmp_path / "d", settings=PruneSettings(**settings, **depth))
    config = AlbertPlusConfig.from_pretrained(tmp_path / "d")
    assert (config.num_hidden_layers, config.layer_rank) == (1, 2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"block_attention_heads": [2, 2]}, "block_attention_heads must have a number for each of the 1 blocks, got 2"),
        (
            {"block_attention_heads": [5]},
            r"block_attention_heads must hold numbers from 1 to num_attention_heads \(4\)",
        ),
        ({"block_intermediate_sizes": [0]}, "block_intermediate_sizes must hold numbers from 1 to 65536, got"),
    ],
)
def test_wrong_sizes_of_blocks(fields, message):
    with pytest.raises(InvalidInput, match=message):
        small_config(**fields)


def test_the_record_names_what_was_done(teachers, data_dir, tmp_path):
    invoke("prune", "--model", teachers / "sst2", "--data", data_dir, "--task", "sst2", "--heads", 0.25, "--columns", 0,
           "--examples", 8, "--max-length", 32, "--out", tmp_path / "p")  # fmt: skip
    record = read_record(tmp_path / "p")
    assert record.stage == "prune"
    assert record.settings["heads"] == 0.25
    assert record.result["columns_removed"] == 0
    assert AlbertPlusConfig.from_pretrained(tmp_path / "p").block_intermediate_sizes is None
