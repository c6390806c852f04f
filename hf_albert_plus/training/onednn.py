"""Products of a training run in fp32 by oneDNN, where the library that torch calls for them leaves AVX-512 unused.

torch's wheels multiply fp32 by Intel's MKL, whose AVX-512 kernels run on Intel's processors alone; on one of AMD's (Zen 5) oneDNN, which
torch carries for bf16, is twice as fast at the same precision.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

# Below these, what oneDNN prepares for a product takes longer than what it gains.
_LEAST_OPERATIONS = 3e7
_LEAST_ROWS = 64


def faster_products() -> AbstractContextManager[None]:
    """A context in which `torch.nn.functional.linear`, and so every `torch.nn.Linear`, multiplies fp32 on the CPU by oneDNN, forward and backward,
    if this processor gains by it; elsewhere it changes nothing. Not for gradients of gradients."""
    return onednn_products() if leaves_avx512_unused() else nullcontext()


def leaves_avx512_unused() -> bool:
    """Whether torch's fp32 products leave AVX-512 unused here.

    What the processor is decides, not a clock: a run that resumes must multiply as it began.
    """
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return False
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(capabilities.get("avx512_f")) and str(capabilities.get("cpu_name", "")).startswith("AMD")


@contextmanager
def onednn_products() -> Iterator[None]:
    """Hands the products of `torch.nn.functional.linear` that are worth it to oneDNN."""
    plain = functional.linear

    def linear(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        if not _is_worth_it(source, weight, bias):
            return plain(source, weight, bias)
        product: torch.Tensor = _Linear.apply(source, weight, bias)
        return product

    # Not a TorchFunctionMode: those are off in a backward pass, where what is checkpointed runs again.
    functional.linear = linear  # type: ignore[assignment]
    try:
        yield
    finally:
        functional.linear = plain


def _is_worth_it(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    given = [source, weight] if bias is None else [source, weight, bias]
    return (
        all(tensor.dtype is torch.float32 and tensor.device.type == "cpu" for tensor in given)
        and all(type(tensor) in (torch.Tensor, torch.nn.Parameter) for tensor in given)
        and not torch.is_autocast_enabled("cpu")
        and bool(torch.backends.mkldnn.enabled)
        and weight.dim() == 2
        and 2 * source.numel() * weight.shape[0] >= _LEAST_OPERATIONS
        and source.numel() >= _LEAST_ROWS * weight.shape[1]
    )


class _Linear(torch.autograd.Function):
    """x·Wᵀ + b and its gradients: dx = dy·W, dW = dyᵀ·x, db = Σ dy."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, weight_OI: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(source, weight_OI)
        return _multiply(source, weight_OI, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        source, weight_OI = ctx.saved_tensors
        needs_source, needs_weight, needs_bias = ctx.needs_input_grad
        gradient_RO = gradient.reshape(-1, weight_OI.shape[0])
        source_RI = source.reshape(-1, weight_OI.shape[1])
        return (
            _multiply(gradient, weight_OI.t()) if needs_source else None,
            _weight_gradient(gradient_RO, source_RI) if needs_weight else None,
            gradient_RO.sum(dim=0) if needs_bias else None,
        )


def _weight_gradient(gradient_RO: torch.Tensor, source_RI: torch.Tensor) -> torch.Tensor:
    """The gradient of the weight. Of two factors oneDNN copies the first, so that is the smaller one."""
    if gradient_RO.shape[1] > source_RI.shape[1]:
        return _multiply(source_RI.t(), gradient_RO.t()).t()
    return _multiply(gradient_RO.t(), source_RI.t())


def _multiply(source: torch.Tensor, weight_OI: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    # What torch.compile itself calls for a Linear on a CPU.
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(source, weight_OI, bias, "none", [], "")
    return product
