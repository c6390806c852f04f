"""Whether an engine's answer to a text depends on its neighbours: the same rows alone, in shuffled batches, and padded further."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import InvarianceError
from ..heads import gives_labels
from ..records.progress import track
from .batching import is_by_token
from .classifier_config import answer_rule_of
from .engine import Engine
from .text_answers import Decide
from .text_encoder import VECTORS

# Of the mean size of the logits.
LARGEST_DIFFERENCE = 1e-3


@dataclass(frozen=True)
class Invariance:
    """How far the answers to rows in batches lie from those to each row alone.

    Attributes:
        rows: that were compared.
        difference_over_mean: the largest difference of a value, over the mean size of all.
        changed_predictions: rows (or tokens, where each has a label) and ways in which another label is given, or one of several more or
            less; 0 where a row has none.
        in_batches_of: sizes of the batches, in shuffled orders.
        padded_to: tokens that rows were padded to.
    """

    rows: int
    difference_over_mean: float
    changed_predictions: int
    in_batches_of: tuple[int, ...]
    padded_to: int

    @property
    def holds(self) -> bool:
        """Whether no prediction changes, and values differ by at most a thousandth of their mean size."""
        return self.changed_predictions == 0 and self.difference_over_mean <= LARGEST_DIFFERENCE


Pad = Callable[[Sequence[dict[str, Any]]], dict[str, torch.Tensor]]


@dataclass(frozen=True)
class BatchEffect:
    """How far the answers to rows in some way lie from those to each row alone.

    Attributes:
        difference_over_mean: the largest difference of a value, over the mean size of all.
        changed_predictions: rows (or tokens, where each has a label) in which another label is given, or one of several more or less; 0
            where a row has none.
    """

    difference_over_mean: float
    changed_predictions: int

    @classmethod
    def of(
        cls, alone: Sequence[torch.Tensor], others: Sequence[torch.Tensor], *, decide: Decide | None
    ) -> "BatchEffect":
        """Compares the answers to the same rows, in one order.

        Args:
            decide: None where nothing is decided.
        """
        mean = sum(float(value.abs().sum()) for value in alone) / sum(value.numel() for value in alone)
        pairs = list(zip(alone, others, strict=True))
        largest = max(float((one - other).abs().max()) for one, other in pairs)
        changed = (
            0
            if decide is None
            else count_changed(
                *(torch.cat([value.reshape(-1, value.shape[-1]) for value in each]) for each in (alone, others)),
                decide=decide,
            )
        )
        return cls(largest / mean if mean else largest, changed)


def count_changed(some: torch.Tensor, others: torch.Tensor, *, decide: Decide) -> int:
    """Rows of which something else is decided, by their values `[n, C]`."""
    one, other = decide(some.numpy()), decide(others.numpy())
    return int((one != other).reshape(len(one), -1).any(axis=1).sum())


def measure_invariance(
    engine: Engine, rows: Sequence[dict[str, Any]], *, pad: Pad, batches: Sequence[int], longest: int
) -> Invariance:
    """Runs rows alone, and again in batches and padded.

    Args:
        pad: rows -> tensors, such as `lambda rows: pad_rows(rows, tokenizer)`.
        batches: sizes of batches; each runs all rows in an order of its own.
        longest: tokens that each row is padded to once more.
    """
    alone = answers_alone(engine, rows, pad=pad)
    widest = max(longest, *(len(row["input_ids"]) for row in rows))
    ways = [answers_in_batches(engine, rows, pad=pad, size=size) for size in batches]
    ways.append(answers_in_batches(engine, rows, pad=padded_to(widest, pad), size=max(batches)))
    decide = answer_rule_of(engine.config).decide if gives_labels(engine.config) else None
    found = [BatchEffect.of(alone, answers, decide=decide) for answers in ways]
    largest = max(way.difference_over_mean for way in found)
    return Invariance(len(rows), largest, sum(way.changed_predictions for way in found), tuple(batches), widest)


def check_invariance(measured: Invariance, *, what: str) -> None:
    """Refuses an engine whose answers depend on the batch.

    Raises:
        InvarianceError: it does not hold.
    """
    if not measured.holds:
        raise InvarianceError(
            what=what,
            rule=f"the answer to a text must be the same alone and in any batch, up to {LARGEST_DIFFERENCE:g} of the mean size of the logits",
            got=f"{measured.difference_over_mean:.2g} and {measured.changed_predictions} other predictions of {measured.rows} rows",
            repair="export onnx, which computes in fp32, and report the model to us",
        )


def answers_alone(
    engine: Engine, rows: Sequence[dict[str, Any]], *, pad: Pad, description: str | None = None
) -> list[torch.Tensor]:
    """The vector of each row by itself, or the first output without what stands at padding."""
    return _answers(engine, [[index] for index in range(len(rows))], rows, pad, description)


def answers_in_batches(
    engine: Engine, rows: Sequence[dict[str, Any]], *, pad: Pad, size: int, description: str | None = None
) -> list[torch.Tensor]:
    """The same of rows in batches of a size, in a shuffled order."""
    order = random.Random(size).sample(range(len(rows)), len(rows))
    batches = [order[start : start + size] for start in range(0, len(rows), size)]
    return _answers(engine, batches, rows, pad, description)


def padded_to(longest: int, pad: Pad) -> Pad:
    """Adds a row of the longest length, whose answer nobody asks for."""

    def with_long_row(some: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        first = some[0]
        long = {name: (list(values) * longest)[:longest] for name, values in first.items()}
        return {name: tensor[:-1] for name, tensor in pad([*some, long]).items()}

    return with_long_row


def _answers(
    engine: Engine, batches: list[list[int]], rows: Sequence[dict[str, Any]], pad: Pad, description: str | None
) -> list[torch.Tensor]:
    answers: list[Any] = [None] * len(rows)
    for batch in track(batches, total=len(batches), description=description):
        tensors = pad([rows[index] for index in batch])
        output = engine(**tensors)
        name = VECTORS if VECTORS in output else next(iter(output))
        mask = tensors["attention_mask"].bool()
        for position, index in enumerate(batch):
            value = output[name][position]
            answers[index] = value[mask[position]] if is_by_token(engine, name) else value
    return answers
