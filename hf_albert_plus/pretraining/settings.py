"""How an encoder is pretrained."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from ..errors import InvalidInput, check_known, check_values
from ..option import Option, PythonOnly
from ..training.settings import ZeroSettings

Optimizer = Literal["lamb", "adamw"]
Unit = Literal["spans", "words", "tokens"]
Attention = Literal["auto", "eager", "sdpa", "flex_attention", "flash_attention_2"]


def published_learning_rate(optimizer: str, *, batch_size: int) -> float:
    """The learning rate of the paper that the optimizer's settings are from.

    It is ALBERT's 1.76e-3 for 4,096 rows, which follows the square root of the rows (You et al. 2019, table 4), or BERT's 1e-4
    for 256.
    """
    return 1.76e-3 * math.sqrt(max(batch_size, 1) / 4096) if optimizer == "lamb" else 1e-4


@dataclass(frozen=True)
class PretrainSettings(ZeroSettings):
    """`ZeroSettings` with what pretraining has besides."""

    epochs: Annotated[float, Option("Passes over the examples.")] = 1.0
    batch_size: Annotated[int, Option("Rows a step, over all processes and accumulated batches.")] = 256
    accumulate: Annotated[int, Option("Forward passes that make a step.")] = 1
    optimizer: Annotated[Optimizer, Option("LAMB as ALBERT's release has it, or AdamW.")] = "lamb"
    learning_rate: Annotated[
        float, Option("Peak; default: 1.76e-3 sqrt(batch size / 4,096) for lamb, 1e-4 for adamw.")
    ] = None  # type: ignore[assignment]  # __post_init__ puts the papers' in its place
    beta1: Annotated[float, Option("Decay of the optimizer's mean of gradients.")] = 0.9
    beta2: Annotated[float, Option("Decay of its mean of their squares. RoBERTa: 0.98.")] = 0.999
    epsilon: Annotated[float, Option("What the optimizer adds to the root of that mean.")] = 1e-6
    warmup: float = 0.025
    max_length: Annotated[int, PythonOnly("the corpus has the length of its examples")] = 128
    masked: Annotated[Unit, Option("Spans of up to three whole words (ALBERT), whole words, or tokens.")] = "spans"
    longest: Annotated[int, PythonOnly("the longest span, three words in ALBERT's release")] = 3
    cap: Annotated[int | None, Option("Tokens masked of a row at most. Default: none; the 2019 commands had 20.")] = (
        None
    )
    copies: Annotated[int | None, Option("Masks that a row has in turn. Default: new ones each time.")] = None
    packed: Annotated[bool, Option("Let short examples share rows, so that nothing is padding.")] = True
    attention: Annotated[Attention, Option("transformers' name of it; auto takes the fastest that is installed.")] = (
        "auto"
    )
    checkpoint_layers: Annotated[bool, Option("Compute layers again in the backward pass: less memory.")] = False
    evaluations: Annotated[int, Option("How often the held-out text is scored.")] = 10
    patience: Annotated[
        float,
        Option(
            "Share of the steps after warm-up by which the loss must be below that of the frequencies of words; 1: a run may stay there."
        ),
    ] = 0.2

    def describe(self) -> dict[str, Any]:
        """Without `max_length`: the corpus has the length of its examples; without `patience`, which stops a run and changes none; and
        without what is said of zeros where there are none."""
        left_out = {"max_length", "patience", *(() if self.sparsity else ("sparsity", "schedule", "ramp"))}
        return {name: value for name, value in super().describe().items() if name not in left_out}

    def __post_init__(self) -> None:
        if self.learning_rate is None:
            rate = published_learning_rate(self.optimizer, batch_size=self.batch_size)
            object.__setattr__(self, "learning_rate", rate)
        super().__post_init__()
        check_known(self, optimizer=get_args(Optimizer), masked=get_args(Unit), attention=get_args(Attention))
        check_values(
            self,
            ("beta1", 0 <= self.beta1 < 1, "from 0 up to, not including, 1", 0.9),
            ("beta2", 0 <= self.beta2 < 1, "from 0 up to, not including, 1", 0.999),
            ("epsilon", 0 < self.epsilon < 1, "between 0 and 1", 1e-6),
            ("accumulate", self.accumulate >= 1, "at least 1", 1),
            ("longest", 1 <= self.longest <= 1000, "at least 1 and at most 1,000", 3),
            ("cap", self.cap is None or self.cap >= 1, "at least 1", 20),
            ("patience", 0 <= self.patience <= 1, "a share from 0 to 1", 0.2),
            ("copies", self.copies is None or self.copies >= 1, "at least 1", 10),
            ("evaluations", 0 <= self.evaluations <= 1_000_000, "at least 0 and at most 1,000,000", 10),
        )
        if self.batch_size % self.accumulate:
            raise InvalidInput(
                "--batch-size must be a multiple of --accumulate",
                got=f"{self.batch_size} and {self.accumulate}",
                repair=f"use --batch-size {-(-self.batch_size // self.accumulate) * self.accumulate}",
            )


def chooser(settings: PretrainSettings, tokenizer: Any) -> Any:
    """What is masked."""
    from .masking import Spans

    longest = settings.longest if settings.masked == "spans" else 1
    return Spans(tokenizer, longest=longest, cap=settings.cap, whole_words=settings.masked != "tokens")
