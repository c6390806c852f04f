"""Scores on held-out text: the loss and accuracy of masked tokens, and the accuracy of orders."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from ..records import processes


@torch.no_grad()
def score_held_out(
    model: torch.nn.Module, rows: Any, collator: Any, *, batch_size: int, device: torch.device, autocast: bool
) -> dict[str, float]:
    """Every process scores its share of the rows; all get the same answer.

    The masks are those of epoch 0, so that scores of one run, and of runs with the same seed, are of the same tokens.

    Args:
        rows: items of the collator.
        autocast: multiply in bf16, as training does.

    Returns:
        `mlm_loss` (nats), `mlm_accuracy` and `order_accuracy` (0 to 1), each where there is something to tell, and how many tokens
        and orders these are of.
    """
    was_training, epoch = model.training, collator.draws.epoch
    model.eval()
    collator.draws.epoch = 0
    # Loss, right tokens, tokens, right orders, orders.
    sums = torch.zeros(5, dtype=torch.float64, device=device)
    try:
        for batch, counts in _batches(rows, collator, batch_size):
            batch = {name: value.to(device) for name, value in batch.items()}
            labels, orders = batch.pop("labels"), batch.pop("sentence_order_label")
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=autocast):
                outputs = model(**batch)
            if not counts:
                continue
            logits = outputs.prediction_logits.float()
            told = orders != -100
            right = (outputs.sop_logits.argmax(-1) == orders)[told]
            loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
            sums += torch.stack(
                [loss.double(), (logits.argmax(-1) == labels).sum().double(), sums.new_tensor(len(labels)),
                 right.sum().double(), told.sum().double()]
            )  # fmt: skip
    finally:
        model.train(was_training)
        collator.draws.epoch = epoch
    loss, right_tokens, tokens, right_orders, orders_told = processes.summed(sums).tolist()
    scores = {"masked_tokens": tokens, "orders": orders_told}
    if tokens:
        scores |= {"mlm_loss": loss / tokens, "mlm_accuracy": right_tokens / tokens}
    if orders_told:
        scores["order_accuracy"] = right_orders / orders_told
    return scores


def _batches(rows: Any, collator: Any, batch_size: int) -> Iterator[tuple[dict[str, torch.Tensor], bool]]:
    """This process's batches. Where weights are in shards all processes must run as many: some have one more, not to be counted."""
    mine = range(processes.rank(), len(rows), processes.count())
    for start in range(0, -(-len(rows) // processes.count()), batch_size):
        own = mine[start : start + batch_size]
        yield collator([rows[index] for index in own or [0]]), len(own) > 0


def unigram_entropy(rows: Any, *, vocabulary: int, special: list[int], sample: int = 20_000) -> float:
    """Nats a token of a model that knows nothing but how frequent each is: what a run that has not begun to learn stays at."""
    step = max(1, len(rows) // sample)
    counts = torch.zeros(vocabulary, dtype=torch.float64)
    for row in rows.select(range(0, len(rows), step)).iter(batch_size=1000):
        counts += torch.bincount(torch.tensor([i for ids in row["input_ids"] for i in ids]), minlength=vocabulary)
    counts[special] = 0
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum()) if len(shares) else math.inf
