"""Products by oneDNN: the values and gradients of torch's own, and where they are left to it."""

from contextlib import nullcontext

import pytest
import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from hf_albert_plus.pretraining.settings import PretrainSettings
from hf_albert_plus.pretraining.stage import pretrain
from hf_albert_plus.training import loop as training
from hf_albert_plus.training import onednn
from hf_albert_plus.training.onednn import leaves_avx512_unused, onednn_products
from tests.support.pretraining import CONFIG, SETTINGS

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")

PRODUCT = "mkldnn::_linear_pointwise"


def used(operation) -> int:
    """How many products of oneDNN an operation makes."""
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        operation()
    return sum(event.count for event in recorded.key_averages() if event.key == PRODUCT)


def tensors(*, rows=(4, 40), inner=160, outer=640):
    generator = torch.Generator().manual_seed(0)
    shapes = ((*rows, inner), (outer, inner), (outer,), (*rows, outer))
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("widths", [(160, 640), (640, 160), (320, 320)])
@pytest.mark.parametrize("rows", [(160,), (4, 40), (2, 2, 40)])
@pytest.mark.parametrize("has_bias", [True, False])
def test_values_and_gradients_are_those_of_float64(widths, rows, has_bias):
    source, weight, bias, gradient = tensors(rows=rows, inner=widths[0], outer=widths[1])
    learned = [source, weight, bias] if has_bias else [source, weight]

    def passes(given):
        given = [tensor.clone().requires_grad_() for tensor in given]
        product = functional.linear(*given)
        product.backward(gradient.to(product.dtype))
        return [product.detach(), *(tensor.grad for tensor in given)]

    expected = passes([tensor.double() for tensor in learned])
    with onednn_products():
        assert used(lambda: passes(learned)) == 3
        found = passes(learned)
    for ours, exact in zip(found, expected, strict=True):
        assert ours.shape == exact.shape
        assert ours.dtype == torch.float32
        # float32 has 24 bits; a sum of 640 products of size one errs by some 1e-5.
        torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=2e-4)


def test_layouts_of_a_view_a_transpose_and_a_tied_weight():
    source, weight, _, gradient = tensors(rows=(160,))
    column = source.t().contiguous().t().requires_grad_()
    tied = weight.t().contiguous().t().clone(memory_format=torch.preserve_format).requires_grad_()
    expected = torch.autograd.grad(functional.linear(column, tied), (column, tied), gradient)
    with onednn_products():
        found = torch.autograd.grad(functional.linear(column, tied), (column, tied), gradient)
        twice = torch.autograd.grad(functional.linear(functional.linear(column, tied), tied.t()).sum(), tied)[0]
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-4)
    torch.testing.assert_close(
        twice,
        torch.autograd.grad(functional.linear(functional.linear(column, tied), tied.t()).sum(), tied)[0],
        rtol=1e-4,
        atol=2e-2,
    )


def test_frozen_weights_get_no_gradient_and_cost_no_product():
    source, weight, bias, _ = tensors()
    source.requires_grad_()
    with onednn_products():
        assert used(lambda: functional.linear(source, weight, bias).sum().backward()) == 2
        with torch.no_grad():
            assert used(lambda: functional.linear(source, weight, bias)) == 1
    assert weight.grad is None
    assert source.grad is not None


def test_what_is_left_to_torch(monkeypatch):
    source, weight, bias, _ = tensors()
    with onednn_products():
        assert used(lambda: functional.linear(source, weight, bias)) == 1
        assert used(lambda: functional.linear(source.double(), weight.double())) == 0
        assert used(lambda: functional.linear(source[:, :2], weight)) == 0, "too small to gain"
        assert used(lambda: functional.linear(source[:1], weight)) == 0, "too few rows"
        assert used(lambda: functional.linear(source[:0], weight)) == 0, "no rows"
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert functional.linear(source, weight, bias).dtype == torch.bfloat16
        with monkeypatch.context() as patch:
            patch.setattr(torch.backends.mkldnn, "enabled", False)
            assert used(lambda: functional.linear(source, weight, bias)) == 0
    assert used(lambda: functional.linear(source, weight, bias)) == 0, "the context has ended"


@pytest.mark.parametrize(
    ("capabilities", "gains"),
    [
        ({"avx512_f": True, "cpu_name": "AMD EPYC 9755"}, True),
        ({"avx512_f": True, "cpu_name": "Intel(R) Xeon(R) Platinum 8480+"}, False),
        ({"avx512_f": False, "cpu_name": "AMD EPYC 7763"}, False),
        ({}, False),
    ],
)
def test_processors_that_gain(monkeypatch, capabilities, gains):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert leaves_avx512_unused() == gains


@pytest.mark.slow
def test_a_run_trains_with_it(corpus, tmp_path, monkeypatch):
    """The loss of a run of torch's own products, with every product by oneDNN: forward, backward and computed again."""
    settings = PretrainSettings(**{**SETTINGS, "optimizer": "lamb", "checkpoint_layers": True})

    def loss(name):
        result = pretrain(corpus, config=CONFIG, output=tmp_path / name, settings=settings).result
        return result["held_out_mlm_loss"]

    monkeypatch.setattr(training, "faster_products", nullcontext)
    expected = loss("plain")
    monkeypatch.setattr(training, "faster_products", onednn_products)
    monkeypatch.setattr(onednn, "_LEAST_OPERATIONS", 0)
    monkeypatch.setattr(onednn, "_LEAST_ROWS", 0)
    products = []
    monkeypatch.setattr(onednn, "_multiply", spied(onednn._multiply, products))
    assert loss("ours") == pytest.approx(expected, abs=1e-3)
    assert len(products) > 100


def spied(function, calls):
    def call(*args):
        calls.append(args)
        return function(*args)

    return call
