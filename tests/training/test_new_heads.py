"""New heads learn at a rate of their own where the data are one's own; a benchmark's keep the encoder's."""

import json
import math
import shutil

import numpy
import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.glue import get_task
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.training.finetuning import finetune
from hf_albert_plus.training.new_heads import give_head_its_rate, head_rate, start_at_priors
from hf_albert_plus.training.settings import TrainSettings

QUICK = TrainSettings(epochs=1, batch_size=8, learning_rate=1e-6, max_length=16, precision="fp32")
TINY = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


@pytest.fixture
def own(tmp_path):
    """Where `bad` is a label of one row in eight, and `good` of half of them."""
    path = tmp_path / "films.jsonl"
    labels = [["good"], ["good"], ["good", "bad"], [], ["good"], [], [], []]
    rows = [
        {"text": f"a {'good' if 'good' in own else 'dull'} film {i}", "labels": own} for i, own in enumerate(labels * 4)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_head_moves_by_its_rate_and_the_encoder_by_its_own():
    """Adam's first step is the learning rate, whatever the gradient: so how far a weight goes shows its rate."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**TINY, num_labels=3))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    decayed = [value for name, value in model.named_parameters() if "bias" not in name]
    plain = [value for name, value in model.named_parameters() if "bias" in name]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-4, eps=1e-20
    )
    give_head_its_rate(optimizer, model, 1e-2)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(before)
    model(input_ids=torch.arange(6).reshape(2, 3), labels=torch.tensor([0, 2])).loss.backward()
    optimizer.step()
    for name, value in model.named_parameters():
        rate = 1e-2 if name.startswith("classifier") else 1e-4
        decay = 0.0 if "bias" in name else 0.1
        moved = (value - before[name] * (1 - rate * decay)).abs().detach()
        moved = moved[value.grad.abs() > 1e-12]
        if len(moved):
            torch.testing.assert_close(moved, torch.full_like(moved, rate), rtol=2e-3, atol=1e-7)


def test_a_head_of_several_labels_starts_at_its_log_odds(own):
    task = find_task(str(own))
    model = BertForSequenceClassification(BertConfig(**TINY, num_labels=3))
    start_at_priors(model, [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]], task)
    wanted = [math.log(0.25 / 0.75), math.log(0.2 / 0.8), math.log(0.8 / 0.2)]
    numpy.testing.assert_allclose(model.classifier.bias.detach(), wanted, rtol=1e-6)


def test_one_of_several_classes_starts_as_it_was():
    model = BertForSequenceClassification(BertConfig(**TINY, num_labels=2))
    start_at_priors(model, [0, 1, 1], get_task("sst2"))
    assert model.classifier.bias.abs().max() == 0


@pytest.mark.slow
def test_own_data_have_it_by_default(own, encoder_dir, tmp_path):
    """At an encoder's rate of 1e-6 only the head can move."""
    record = finetune(
        str(encoder_dir), data=str(own), task=find_task(str(own)), output=tmp_path / "out", settings=QUICK
    )
    assert record.settings["head_learning_rate"] == 1e-3
    trained = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    encoder = AutoModelForSequenceClassification.from_pretrained(encoder_dir).base_model.state_dict()
    state = trained.base_model.state_dict()
    assert max(float((state[name] - encoder[name]).abs().max()) for name in encoder) < 1e-5
    own_rate = finetune(
        str(encoder_dir), data=str(own), task=find_task(str(own)), output=tmp_path / "slow", settings=QUICK, head_learning_rate=1e-6
    )  # fmt: skip
    assert own_rate.settings["head_learning_rate"] == 1e-6
    slow = AutoModelForSequenceClassification.from_pretrained(tmp_path / "slow")
    moved = float((slow.classifier.bias - trained.classifier.bias).detach().abs().max())
    assert 5e-4 < moved <= 4e-3  # four steps of at most 1e-3


@pytest.mark.slow
def test_a_benchmark_keeps_the_rate_of_the_encoder(encoder_dir, data_dir, tmp_path):
    settings = TrainSettings(epochs=0.05, batch_size=16, max_length=16, precision="fp32")
    record = finetune(
        str(encoder_dir), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "out", settings=settings
    )
    assert "head_learning_rate" not in record.settings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "said", "rate"),
    [(None, None, None), (None, "mean", 1e-3), ("first", "mean", None), ("mean", None, 1e-3)],
    ids=["an encoder", "a sentence encoder", "its first token", "the mean of an encoder"],
)
def test_a_benchmarks_head_on_a_mean_has_a_rate_of_its_own(pooling, said, rate, encoder_dir, data_dir, tmp_path):
    """`said` is what the encoder was trained to be read by."""
    encoder = tmp_path / "encoder"
    shutil.copytree(encoder_dir, encoder)
    if said is not None:
        (encoder / "1_Pooling").mkdir()
        (encoder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    settings = TrainSettings(epochs=0.05, batch_size=16, max_length=16, precision="fp32", learning_rate=1e-6)
    record = finetune(
        str(encoder), data=str(data_dir), task=get_task("sst2"), output=tmp_path / "out", settings=settings, pooling=pooling
    )  # fmt: skip
    assert record.settings.get("head_learning_rate") == rate


@pytest.mark.parametrize(
    ("chosen", "is_new", "said"),
    [
        (0.0, True, "between 0 and 1"),
        (1.0, True, "between 0 and 1"),
        (float("nan"), True, "between 0 and 1"),
        (1e-3, False, "for a new head"),
    ],
)
def test_a_rate_that_cannot_be(own, chosen, is_new, said):
    with pytest.raises(InvalidInput, match=said):
        head_rate(find_task(str(own)), chosen=chosen, learning_rate=5e-5, is_new=is_new)


def test_whose_rate_it_is(own):
    task = find_task(str(own))
    assert head_rate(task, chosen=None, learning_rate=5e-5, is_new=True) == 1e-3
    assert head_rate(task, chosen=None, learning_rate=5e-3, is_new=True) == 5e-3
    assert head_rate(task, chosen=None, learning_rate=5e-5, is_new=False) is None
    assert head_rate(get_task("sst2"), chosen=None, learning_rate=5e-5, is_new=True) is None
    assert head_rate(get_task("sst2"), chosen=None, learning_rate=5e-5, is_new=True, pooling="mean") == 1e-3
    assert head_rate(get_task("sst2"), chosen=None, learning_rate=5e-5, is_new=False, pooling="mean") is None
    assert head_rate(get_task("sst2"), chosen=2e-3, learning_rate=5e-5, is_new=True) == 2e-3
