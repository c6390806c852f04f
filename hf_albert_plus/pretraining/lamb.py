"""LAMB (You et al. 2020), as ALBERT's release has it."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim import Optimizer

from ..errors import InvalidInput


class Lamb(Optimizer):
    """Adam whose step for each tensor is as long as that tensor's norm, times the learning rate.

    Of ALBERT's lamb_optimizer.py: no bias correction (the paper's Algorithm 2 has one), weight decay added to the step before
    its length is taken, and a step of Adam's own length where the tensor or the step is zero.

    Args:
        params: tensors, or groups of them; a group's `adapt` (default true) says whether its steps take the tensor's length.
            `decay_groups` makes those of the paper: neither decay nor adaptation for biases and norms.
        betas: of the means of gradients and of their squares.

    Raises:
        InvalidInput: a value outside its range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.76e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        adapt: bool = True,
    ):
        for name, value, valid, repair in (
            ("lr", lr, lr >= 0, 1.76e-3),
            ("betas", betas, all(0 <= beta < 1 for beta in betas), (0.9, 0.999)),
            ("eps", eps, eps > 0, 1e-6),
            ("weight_decay", weight_decay, weight_decay >= 0, 0.01),
        ):
            if not valid:
                raise InvalidInput(f"{name} is out of range", got=value, repair=f"use {name}={repair}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "adapt": adapt})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step on every tensor that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._step(parameters, group)
        return loss

    def _step(self, parameters: list[torch.Tensor], group: dict[str, Any]) -> None:
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["mean"] = torch.zeros_like(parameter)
                self.state[parameter]["square"] = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        means = [self.state[parameter]["mean"] for parameter in parameters]
        squares = [self.state[parameter]["square"] for parameter in parameters]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
        steps = torch._foreach_sqrt(squares)
        torch._foreach_add_(steps, group["eps"])
        steps = torch._foreach_div(means, steps)
        if group["weight_decay"]:
            torch._foreach_add_(steps, parameters, alpha=group["weight_decay"])
        if group["adapt"]:
            lengths, steps_lengths = torch._foreach_norm(parameters), torch._foreach_norm(steps)
            ratios = [
                torch.where((length > 0) & (step > 0), length / step, 1.0)
                for length, step in zip(lengths, steps_lengths, strict=True)
            ]
            torch._foreach_mul_(steps, ratios)
        torch._foreach_add_(parameters, steps, alpha=-group["lr"])


def decay_groups(model: torch.nn.Module, *, weight_decay: float) -> list[dict[str, Any]]:
    """Groups for `Lamb` and AdamW: biases and norms have neither decay nor adaptation (ALBERT's exclude_from_weight_decay)."""
    norms = {
        f"{name}.{leaf}" if name else leaf
        for name, module in model.named_modules()
        if "norm" in type(module).__name__.lower()
        for leaf, _ in module.named_parameters(recurse=False)
    }
    groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[name not in norms and not name.endswith("bias")].append(parameter)
    return [
        {"params": groups[True], "weight_decay": weight_decay, "adapt": True},
        {"params": groups[False], "weight_decay": 0.0, "adapt": False},
    ]
