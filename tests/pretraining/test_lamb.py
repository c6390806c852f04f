"""LAMB against its formula, worked by hand and in numpy."""

import math

import numpy
import pytest
import torch

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.modeling_albert_plus import AlbertPlusForPreTraining
from hf_albert_plus.pretraining.lamb import Lamb, decay_groups
from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.pretraining.trainer import PretrainTrainer
from tests.support.small_models import small_config


def test_one_step_by_hand():
    """Weights (3, 4), gradient (1, 0): m = (0.1, 0), v = (0.001, 0), step 0.1/(√0.001 + 10⁻⁶) = 3.16218; decay adds (0.03, 0.04).
    Norms 5 and √(3.19218² + 0.04²)."""
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    weight.grad = torch.tensor([1.0, 0.0], dtype=torch.float64)
    Lamb([weight], lr=0.1).step()
    step = numpy.array([0.1 / (math.sqrt(0.001) + 1e-6) + 0.03, 0.04])
    expected = numpy.array([3, 4]) - 0.1 * 5 / math.sqrt(step @ step) * step
    assert weight.detach().numpy() == pytest.approx(expected, rel=1e-12)
    assert step[0] == pytest.approx(3.19218, abs=1e-5)


@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_many_steps_in_numpy(adapt, weight_decay):
    random = numpy.random.default_rng(0)
    weights = {"a": random.normal(size=(4, 3)), "b": random.normal(size=5)}
    parameters = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in weights.items()}
    optimizer = Lamb(parameters.values(), lr=0.02, weight_decay=weight_decay, adapt=adapt)
    means = {name: numpy.zeros_like(value) for name, value in weights.items()}
    squares = {name: numpy.zeros_like(value) for name, value in weights.items()}
    for _ in range(20):
        for name in weights:
            gradient = random.normal(size=weights[name].shape)
            parameters[name].grad = torch.tensor(gradient)
            means[name] = 0.9 * means[name] + 0.1 * gradient
            squares[name] = 0.999 * squares[name] + 0.001 * gradient**2
            step = means[name] / (numpy.sqrt(squares[name]) + 1e-6) + weight_decay * weights[name]
            ratio = numpy.linalg.norm(weights[name]) / numpy.linalg.norm(step) if adapt else 1
            weights[name] = weights[name] - 0.02 * ratio * step
        optimizer.step()
    for name, value in weights.items():
        assert parameters[name].detach().numpy() == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(("weight", "gradient"), [([0.0, 0.0], [1.0, 2.0]), ([1.0, 2.0], [0.0, 0.0])])
def test_a_zero_tensor_or_step_has_ratio_one(weight, gradient):
    parameter = torch.nn.Parameter(torch.tensor(weight, dtype=torch.float64))
    parameter.grad = torch.tensor(gradient, dtype=torch.float64)
    Lamb([parameter], lr=0.1, weight_decay=0).step()
    step = 0.1 * numpy.array(gradient) / (numpy.sqrt(0.001 * numpy.array(gradient) ** 2) + 1e-6)
    assert parameter.detach().numpy() == pytest.approx(numpy.array(weight) - 0.1 * step, rel=1e-9)


def test_biases_and_norms_are_left_out():
    model = AlbertPlusForPreTraining(small_config())
    decayed, plain = decay_groups(model, weight_decay=0.01)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert all(not names[id(parameter)].endswith("bias") for parameter in decayed["params"])
    assert all("norm" not in names[id(parameter)] for parameter in decayed["params"])
    assert len(decayed["params"]) + len(plain["params"]) == len(names)
    assert {names[id(p)].rpartition(".")[2] for p in plain["params"] if "norm" in names[id(p)]} == {"weight", "bias"}
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = Lamb([decayed, plain], lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        moved = not torch.equal(parameter, before[name])
        assert moved == (parameter.ndim == 2 and bool(before[name].any())), name


def test_biases_and_norms_step_as_adam_does():
    """Whatever their lengths are, without decay: 0.1 · 0.1 g / (√0.001 |g| + 10⁻⁶)."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4)).double()
    left_out = [model[0].bias, model[1].weight, model[1].bias]
    with torch.no_grad():
        for number, parameter in enumerate(left_out, start=1):
            parameter.add_(10 * number)
    before = [parameter.detach().clone() for parameter in left_out]
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, -2)
    Lamb(decay_groups(model, weight_decay=0.5), lr=0.1).step()
    step = 0.1 * 0.1 * 2 / (math.sqrt(0.001) * 2 + 1e-6)
    for parameter, old in zip(left_out, before, strict=True):
        torch.testing.assert_close(parameter.detach(), old + step)


def test_its_state_is_kept(tmp_path):
    """A run that is saved and opened again goes on as the other."""

    def make():
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2)
        return layer, Lamb(decay_groups(layer, weight_decay=0.01), lr=0.05)

    def steps(layer, optimizer, count):
        for i in range(count):
            optimizer.zero_grad()
            layer(torch.full((2, 3), float(i + 1))).square().sum().backward()
            optimizer.step()

    layer, optimizer = make()
    steps(layer, optimizer, 3)
    torch.save((layer.state_dict(), optimizer.state_dict()), tmp_path / "state")
    steps(layer, optimizer, 3)
    other, again = make()
    weights, state = torch.load(tmp_path / "state", weights_only=True)
    other.load_state_dict(weights)
    again.load_state_dict(state)
    steps(other, again, 3)
    assert torch.equal(layer.weight, other.weight)


@pytest.mark.parametrize("optimizer", ["lamb", "adamw"])
def test_the_means_decay_as_the_settings_say(optimizer):
    """Three steps of a pretraining's own optimizer on a bias, which neither decays nor adapts, against Adam's formula."""
    settings = PretrainSettings(optimizer=optimizer, learning_rate=0.1, beta1=0.8, beta2=0.98, epsilon=1e-3)
    layer = torch.nn.Linear(1, 2, dtype=torch.float64)
    trainer = PretrainTrainer.__new__(PretrainTrainer)
    trainer.pretraining, trainer.model, trainer.optimizer = settings, layer, None
    made = trainer.create_optimizer()
    weight, mean, square = layer.bias.detach().numpy().copy(), numpy.zeros(2), numpy.zeros(2)
    for step in (1, 2, 3):
        gradient = numpy.array([step, -0.01 * step])
        layer.weight.grad, layer.bias.grad = torch.zeros_like(layer.weight), torch.tensor(gradient)
        made.step()
        mean = 0.8 * mean + 0.2 * gradient
        square = 0.98 * square + 0.02 * gradient**2
        corrected = (1 - 0.8**step, 1 - 0.98**step) if optimizer == "adamw" else (1, 1)
        weight = weight - 0.1 * (mean / corrected[0]) / (numpy.sqrt(square / corrected[1]) + 1e-3)
    assert layer.bias.detach().numpy() == pytest.approx(weight, rel=1e-9)


@pytest.mark.parametrize("given", [{"beta1": 1.0}, {"beta2": -0.1}, {"epsilon": 0.0}])
def test_settings_out_of_range(given):
    with pytest.raises(InvalidInput, match=f"--{next(iter(given))} must be"):
        PretrainSettings(**given)


@pytest.mark.parametrize("given", [{"lr": -1}, {"betas": (1.0, 0.9)}, {"eps": 0}, {"weight_decay": -0.1}])
def test_what_is_out_of_range(given):
    with pytest.raises(InvalidInput, match=next(iter(given))):
        Lamb([torch.nn.Parameter(torch.ones(1))], **given)
