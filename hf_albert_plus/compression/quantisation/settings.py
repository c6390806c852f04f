"""How a model is trained for few bits."""

from dataclasses import dataclass

from ...errors import InvalidInput, check_values
from ...training import TrainSettings
from .rounding import BITS


@dataclass(frozen=True)
class QatSettings(TrainSettings):
    """
    Attributes:
        bits: of the blocks' weights; several to choose from for each block, under `budget`. Everything else has 8.
        groups: groups of consecutive rows of a weight that share their levels; None: every row has its own.
        budget: MB (10^6 bytes) of the packed model.
        decay: of the moving averages of activations' ranges.
        draws: parts of the training data that curvature is measured on, its mean and deviation taken over them.
        examples: of each draw.
    """

    bits: tuple[int, ...] = (8,)
    groups: int | None = None
    budget: float | None = None
    decay: float = 0.9999
    draws: int = 5
    examples: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        known = ", ".join(map(str, BITS))
        check_values(
            self,
            ("bits", bool(self.bits) and set(self.bits) <= set(BITS), f"one or more of {known}", "4"),
            ("groups", self.groups is None or self.groups >= 1, "at least 1", "128"),
            ("budget", self.budget is None or 0 < self.budget <= 1e6, "above 0 MB and at most 1,000,000", "5"),
            ("decay", 0 <= self.decay < 1, "from 0 up to, not including, 1", "0.9999"),
            ("draws", 2 <= self.draws <= 10_000, "at least 2 and at most 10,000", "5"),
            ("examples", self.examples >= 1, "at least 1", "64"),
        )
        if (len(set(self.bits)) > 1) != (self.budget is not None):
            raise InvalidInput(
                "several --bits are chosen from under a --budget, and one needs none",
                got=f"--bits {','.join(map(str, self.bits))} and --budget {self.budget}",
                repair="add --budget MB, or leave it out",
            )


__all__ = ["QatSettings"]
