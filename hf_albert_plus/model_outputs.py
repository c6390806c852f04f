"""The logits of a model's output object, whatever its head is."""

from typing import Any

import torch

from .heads import SPAN_LOGITS


def logits_of(output: Any) -> torch.Tensor:
    """An output's `logits`; of a model of spans those of start and end side by side, `[batch, sequence, 2]`."""
    if SPAN_LOGITS[0] in output:
        return torch.stack([output[name] for name in SPAN_LOGITS], dim=-1)
    logits: torch.Tensor = output["logits"]
    return logits
