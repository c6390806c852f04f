"""Losses of tasks where a row may have several labels: each label is a question of its own."""

import numpy
import pytest
import torch
from scipy.special import expit, rel_entr

from hf_albert_plus.distillation import losses
from hf_albert_plus.distillation.distiller import Distiller
from hf_albert_plus.distillation.methods import METHODS
from hf_albert_plus.distillation.phases import Layers
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
from tests.support.small_models import pair_inputs, randomise, small_config

SEVERAL = "multi_label_classification"
LABELS = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0]])


def _model(seed, **fields):
    model = randomise(AlbertPlusForSequenceClassification(small_config(num_labels=3, problem_type=SEVERAL, **fields)))
    with torch.no_grad():
        model.classifier.bias.add_(torch.tensor([1.0, -1.0, 0.5]) * seed)
    return model


def _binary_kl(student, teacher, temperature):
    """Σ over the two sides of each label, by scipy, mean over rows and labels."""
    p, q = (expit(numpy.asarray(z.detach().double()) / temperature) for z in (teacher, student))
    return temperature**2 * (rel_entr(p, q) + rel_entr(1 - p, 1 - q)).mean()


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_divergence_is_of_each_label(temperature):
    student, teacher = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    pairs = losses.binary_logits(student), losses.binary_logits(teacher)
    assert pairs[0].shape == (20, 2)
    found = losses.soft_target_loss(*pairs, temperature=temperature)
    assert found.item() == pytest.approx(_binary_kl(student, teacher, temperature), rel=1e-5)
    # The cross-entropy has the same gradient as the divergence.
    gradients = []
    for loss in (losses.soft_target_loss, losses.soft_cross_entropy_loss):
        wanted = student.clone().requires_grad_()
        loss(losses.binary_logits(wanted), pairs[1], temperature=temperature).backward()
        gradients.append(wanted.grad)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("method", ["kd", "kd-hidden", "tinybert", "pkd"])
def test_every_method_asks_label_by_label(method):
    """What a phase minimises where student and teacher differ in their classifiers' biases alone: soft and hard labels of each."""
    student, teacher = _model(1), _model(-1)
    phase = METHODS[method].phases(Layers(student=4, teacher=4), {})[-1]
    batch = {**pair_inputs(120), "labels": LABELS}
    distiller = Distiller(student, teacher, phase).eval()
    distiller(**batch)
    terms = distiller.take_terms()
    ours, theirs = (model(**pair_inputs(120)).logits for model in (student, teacher))
    soft = next(term for term in phase.terms if type(term).__name__ in ("SoftTargets", "SoftCrossEntropy"))
    expected = _binary_kl(ours, theirs, soft.temperature)
    if soft.name == "soft_cross_entropy":  # with the teacher's own entropy
        p = expit(numpy.asarray(theirs.detach().double()) / soft.temperature)
        expected -= soft.temperature**2 * (p * numpy.log(p) + (1 - p) * numpy.log(1 - p)).mean()
    assert terms[f"loss_{soft.name}"] == pytest.approx(expected, rel=1e-4)
    if "loss_labels" in terms:
        hard = torch.nn.functional.binary_cross_entropy_with_logits(ours, LABELS)
        assert terms["loss_labels"] == pytest.approx(hard.item(), rel=1e-5)


@pytest.mark.parametrize("method", ["fastbert", "pabee"])
def test_exits_ask_label_by_label(method):
    student = _model(1, exit_layers=[1, 2], exit_head="pooled")
    phase = METHODS[method].phases(Layers(student=4, teacher=4), {})[-1]
    distiller = Distiller(student, None, phase).eval()
    distiller(**pair_inputs(120), labels=LABELS)
    terms = distiller.take_terms()
    output = student(**pair_inputs(120), output_exits=True)
    if method == "fastbert":
        expected = sum(_binary_kl(exit_, output.logits, 1.0) for exit_ in output.exit_logits)
        assert terms["loss_exits"] == pytest.approx(expected, rel=1e-4)
        return
    each = [
        torch.nn.functional.binary_cross_entropy_with_logits(z, LABELS) for z in (*output.exit_logits, output.logits)
    ]
    expected = sum(depth * loss.item() for depth, loss in zip((1, 2, 4), each, strict=True)) / 7
    assert terms["loss_exits_by_depth"] == pytest.approx(expected, rel=1e-5)
