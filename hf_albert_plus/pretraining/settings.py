"""How an encoder is pretrained."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..errors import InvalidInput, check_known, check_values
from ..training import TrainSettings

Optimizer = Literal["lamb", "adamw"]
Unit = Literal["spans", "words", "tokens"]
Attention = Literal["auto", "eager", "sdpa", "flex_attention", "flash_attention_2"]
# ALBERT, appendix A.1; and BERT's, which RoBERTa keeps for batches of 256.
_LEARNING_RATES = {"lamb": 1.76e-3, "adamw": 1e-4}


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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self, optimizer=get_args(Optimizer), masked=get_args(Unit), attention=get_args(Attention))
        check_values(
            self,
            ("accumulate", self.accumulate >= 1, "at least 1", 1),
            ("longest", self.longest >= 1, "at least 1", 3),
            ("cap", self.cap is None or self.cap >= 1, "at least 1", 20),
            ("copies", self.copies is None or self.copies >= 1, "at least 1", 10),
            ("evaluations", self.evaluations >= 0, "at least 0", 10),
        )
        if self.batch_size % self.accumulate:
            raise InvalidInput(
                "--batch-size must be a multiple of --accumulate",
                got=f"{self.batch_size} and {self.accumulate}",
                repair=f"use --batch-size {-(-self.batch_size // self.accumulate) * self.accumulate}",
            )


def published_learning_rate(optimizer: str) -> float:
    """Of the paper that the optimizer's settings are from."""
    return _LEARNING_RATES.get(optimizer, 1e-4)


def chooser(settings: PretrainSettings, tokenizer: Any) -> Any:
    """What is masked."""
    from .choosers import Spans

    longest = settings.longest if settings.masked == "spans" else 1
    return Spans(tokenizer, longest=longest, cap=settings.cap, whole_words=settings.masked != "tokens")


__all__ = ["Attention", "Optimizer", "PretrainSettings", "Unit", "chooser", "published_learning_rate"]
