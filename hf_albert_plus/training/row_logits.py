"""What a classifier says of encoded rows, without dropout, on the fastest device."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..machine import fastest_device
from ..model_inputs import IGNORED
from ..model_outputs import logits_of
from ..tasks.question_windows import POSITIONS

# Rows of a batch.
_BATCH = 64
# What batches have that no model reads to answer.
_NOT_READ = ("labels", "length", *POSITIONS)


def batches_of_logits(
    model: Any,
    rows: list[dict[str, Any]],
    collator: Callable[[list[dict[str, Any]]], Any],
    *,
    use_bf16: bool = False,
    output: str = "logits",
) -> Iterator[tuple[Any, torch.Tensor]]:
    """The batches of rows, in their order, each with its logits in fp32 as `logits_of` gives them.

    Args:
        rows, collator, output: as `row_logits`.
    """
    device = fastest_device()
    model = model.eval().to(device)
    for begin in range(0, len(rows), _BATCH):
        batch = collator(rows[begin : begin + _BATCH])
        read = {name: tensor.to(device) for name, tensor in batch.items() if name not in _NOT_READ}
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=use_bf16):
            answered = model(**read)
            found = logits_of(answered) if output == "logits" else answered[output]
        yield batch, found.float().cpu()


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
    answered = batches_of_logits(model, rows, collator, use_bf16=use_bf16, output=output)
    return torch.cat(
        [logits[batch["labels"] != IGNORED] if logits.dim() == 3 else logits for batch, logits in answered]
    )
