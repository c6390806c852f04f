"""The backends of attention against each other: hidden states and gradients of one encoder, padded and packed."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hf_albert_plus.config_building import variant_config
from hf_albert_plus.eval.gpu.gpu_rows import Attempts, Bench, GpuRow
from hf_albert_plus.eval.latency.timing import summarise, time_calls
from hf_albert_plus.modeling_albert_plus import AlbertPlusModel
from hf_albert_plus.random_inputs import random_ids, random_inputs, seeded

# Of the norm of what eager attention in fp32 gives. In bf16 a backend may be as far as twice what eager attention in bf16 is.
_FP32_TOLERANCE, _TIMES_EAGER = 1e-4, 2.0
REFERENCE = "eager fp32"
_WAYS = (
    ("eager", "fp32"), ("sdpa", "fp32"), ("flex_attention", "fp32"),
    ("eager", "bf16"), ("sdpa", "bf16"), ("flex_attention", "bf16"), ("flash_attention_2", "bf16"),
)  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """A batch of sequences, and which of its tokens are real, `[B, S]`."""

    name: str
    tensors: dict[str, torch.Tensor]
    real_BS: torch.Tensor


@dataclass(frozen=True)
class Outcome:
    """What a backend computed.

    Attributes:
        hidden_TH: hidden states of the real tokens.
        gradient_P: gradients of all parameters, one after the other.
    """

    hidden_TH: torch.Tensor
    gradient_P: torch.Tensor


def compare_attention(bench: Bench) -> list[GpuRow]:
    """A row for each backend, precision and layout: how far it lies from eager attention in fp32, whether that is near enough, and what
    a forward and backward pass takes."""
    torch.manual_seed(0)
    without_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = variant_config(bench.sizes.pretrained, overrides={**bench.sizes.fields, **without_dropout})
    model: Any = AlbertPlusModel(config, add_pooling_layer=False)
    model = model.to(bench.device.kind)
    rows: list[GpuRow] = []
    for layout in (_padded(model, bench), _packed(model, bench)):
        rows += _of_layout(bench, model, layout)
    return rows


def _of_layout(bench: Bench, model: Any, layout: Layout) -> list[GpuRow]:
    load, attempts = f"{layout.name} {bench.sizes.attention}", Attempts()
    passes: dict[str, Callable[[], Outcome]] = {}
    outcomes: dict[str, Outcome] = {}
    for backend, precision in _WAYS:
        label = f"{backend} {precision}"
        if backend == "flex_attention" and not bench.device.is_gpu:
            attempts.skip(label, load, "flex attention has no backward pass on a CPU")
            continue
        with attempts.attempt(label, load):
            own = copy.deepcopy(model)
            own.set_attn_implementation(backend)
            step = _pass_of(own, layout, bf16=precision == "bf16")
            outcomes[label] = step()
            passes[label] = step
    timings = time_calls(
        passes, baseline=REFERENCE, seconds=bench.sizes.seconds, description=load, stopwatch=bench.device.time
    )
    cells = summarise(timings, baseline=REFERENCE, items=int(layout.real_BS.sum()))
    found = {label: _errors(outcome, outcomes[REFERENCE]) for label, outcome in outcomes.items()}
    rows = []
    for label, errors in found.items():
        limits = dict.fromkeys(errors, _FP32_TOLERANCE)
        if label.endswith("bf16"):
            limits = {name: _TIMES_EAGER * error for name, error in found.get("eager bf16", {}).items()}
        agrees = all(errors[name] <= limit for name, limit in limits.items())
        facts = {**errors, "limits": limits, "agrees": agrees}
        peak = bench.device.peak_mb(passes[label])
        rows.append(GpuRow(label=label, load=load, unit="tokens", cell=cells[label], peak_device_mb=peak, facts=facts))
    return rows + attempts.rows


def _errors(outcome: Outcome, reference: Outcome) -> dict[str, float]:
    """Norms of the differences, over those of the reference."""
    pairs = {
        "forward_error": (outcome.hidden_TH, reference.hidden_TH),
        "gradient_error": (outcome.gradient_P, reference.gradient_P),
    }
    return {name: float((one - other).norm() / other.norm()) for name, (one, other) in pairs.items()}


def _pass_of(model: Any, layout: Layout, *, bf16: bool) -> Callable[[], Outcome]:
    """A forward and a backward pass from a fixed direction of the real tokens' hidden states."""
    shape = (int(layout.real_BS.sum()), model.config.hidden_size)
    direction_TH = torch.randn(shape, generator=seeded(1)).to(model.device) / shape[0]

    def step() -> Outcome:
        model.zero_grad(set_to_none=True)
        with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=bf16):
            hidden_BSH = model(**layout.tensors).last_hidden_state
        hidden_TH = hidden_BSH[layout.real_BS].float()
        (hidden_TH * direction_TH).sum().backward()
        gradients = [parameter.grad.flatten().float() for parameter in model.parameters() if parameter.grad is not None]
        return Outcome(hidden_TH.detach(), torch.cat(gradients))

    return step


def _padded(model: Any, bench: Bench) -> Layout:
    shape = bench.sizes.attention
    tensors = {
        name: tensor.to(bench.device.kind)
        for name, tensor in random_inputs(model, batch=shape.batch, length=shape.length).items()
    }
    return Layout("padded", tensors, tensors["attention_mask"].bool())


def _packed(model: Any, bench: Bench) -> Layout:
    """Rows of three sequences each, cut at random places, without padding."""
    shape, generator = bench.sizes.attention, seeded(2)
    ids_BS = random_ids(model.config, (shape.batch, shape.length), generator=generator)
    numbers_BS, positions_BS = torch.ones_like(ids_BS), torch.zeros_like(ids_BS)
    for row in range(shape.batch):
        cuts = sorted((torch.randperm(shape.length - 1, generator=generator)[:2] + 1).tolist())
        for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, shape.length], strict=True), start=1):
            numbers_BS[row, start:end] = number
            positions_BS[row, start:end] = torch.arange(end - start)
    tensors = {"input_ids": ids_BS, "sequence_ids": numbers_BS, "position_ids": positions_BS}
    on_device = {name: tensor.to(bench.device.kind) for name, tensor in tensors.items()}
    return Layout("packed", on_device, torch.ones_like(on_device["input_ids"], dtype=torch.bool))
