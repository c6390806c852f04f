"""What a classifier says of encoded rows, without dropout, on the fastest device."""

from collections.abc import Callable
from typing import Any

import torch

from ..machine import fastest_device
from ..model_inputs import IGNORED

# Rows of a batch.
_BATCH = 64


def row_logits(
    model: Any,
    rows: list[dict[str, Any]],
    collator: Callable[[list[dict[str, Any]]], Any],
    *,
    use_bf16: bool = False,
    output: str = "logits",
) -> torch.Tensor:
    """Logits in fp32, `[rows, C]`; of a tagger, of the tokens with a label after each other, `[words, C]`.

    Args:
        rows: in an order in which similar lengths stand together, or padding costs time.
        collator: what makes a batch of rows.
        output: what is read of the model's output, such as a sentence encoder's vectors.
    """
    device = fastest_device()
    model = model.eval().to(device)
    answers = []
    for begin in range(0, len(rows), _BATCH):
        batch = collator(rows[begin : begin + _BATCH])
        read = {name: tensor.to(device) for name, tensor in batch.items() if name not in ("labels", "length")}
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=use_bf16):
            logits = model(**read)[output].float().cpu()
        answers.append(logits[batch["labels"] != IGNORED] if logits.dim() == 3 else logits)
    return torch.cat(answers)
