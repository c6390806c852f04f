"""How an encoder is pretrained."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..errors import InvalidInput, check_known, check_values
from ..training import TrainSettings

Optimizer = Literal["lamb", "adamw"]
Unit = Literal["spans", "words", "tokens"]
Attention = Literal["auto", "eager", "sdpa", "flex_attention", "flash_attention_2"]


@dataclass(frozen=True)
class PretrainSettings(TrainSettings):
    """`TrainSettings` with what pretraining has besides.

    Attributes:
        batch_size: rows a step, over all processes and accumulated batches.
        accumulate: forward passes that make a step.
        optimizer: LAMB as ALBERT's release has it, or AdamW.
        masked: spans of up to `longest` whole words, single whole words, or tokens.
        cap: tokens that are masked of a row at most; None for no limit.
        copies: masks that each example has in turn; None for new ones every epoch.
        packed: sequences share rows, so that there is no padding.
        attention: transformers' name of it; auto takes the fastest.
        checkpoint_layers: layers are computed again in the backward pass instead of kept.
        evaluations: how often the held-out text is scored.
    """

    accumulate: int = 1
    optimizer: Optimizer = "lamb"
    masked: Unit = "spans"
    longest: int = 3
    cap: int | None = None
    copies: int | None = None
    packed: bool = True
    attention: Attention = "auto"
    checkpoint_layers: bool = False
    evaluations: int = 10

    def describe(self) -> dict[str, Any]:
        """Without `max_length`: the corpus has the length of its examples."""
        return {name: value for name, value in super().describe().items() if name != "max_length"}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self, optimizer=get_args(Optimizer), masked=get_args(Unit), attention=get_args(Attention))
        check_values(
            self,
            ("accumulate", self.accumulate >= 1, "at least 1", 1),
            ("longest", 1 <= self.longest <= 1000, "at least 1 and at most 1,000", 3),
            ("cap", self.cap is None or self.cap >= 1, "at least 1", 20),
            ("copies", self.copies is None or self.copies >= 1, "at least 1", 10),
            ("evaluations", 0 <= self.evaluations <= 1_000_000, "at least 0 and at most 1,000,000", 10),
        )
        if self.batch_size % self.accumulate:
            raise InvalidInput(
                "--batch-size must be a multiple of --accumulate",
                got=f"{self.batch_size} and {self.accumulate}",
                repair=f"use --batch-size {-(-self.batch_size // self.accumulate) * self.accumulate}",
            )


def published_learning_rate(optimizer: str, *, batch_size: int) -> float:
    """Of the paper that the optimizer's settings are from: ALBERT's 1.76e-3 for 4,096 rows, which follows the square root of the rows
    (You et al. 2019, table 4), and BERT's 1e-4 for 256."""
    return 1.76e-3 * math.sqrt(max(batch_size, 1) / 4096) if optimizer == "lamb" else 1e-4


def chooser(settings: PretrainSettings, tokenizer: Any) -> Any:
    """What is masked."""
    from .choosers import Spans

    longest = settings.longest if settings.masked == "spans" else 1
    return Spans(tokenizer, longest=longest, cap=settings.cap, whole_words=settings.masked != "tokens")


__all__ = ["Attention", "Optimizer", "PretrainSettings", "Unit", "chooser", "published_learning_rate"]
