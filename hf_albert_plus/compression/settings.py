"""How models are pruned."""

from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import InvalidInput, check_known, check_values
from ..training import TrainSettings

Importance = Literal["taylor", "movement"]
Spread = Literal["model", "block"]
Schedule = Literal["cubic", "one-shot"]


@dataclass(frozen=True)
class PruneSettings(TrainSettings):
    """What is removed. The training settings are those of `movement`, which trains while it measures; `taylor` reads of them the
    batch size and the length.

    Attributes:
        heads: share of all attention heads to remove.
        columns: share of all feed-forward columns to remove.
        importance: `taylor` of the model as it is, or `movement` of its weights in training.
        spread: rank heads and columns of all blocks together, or take the same share of every block.
        examples: training examples that `taylor` reads.
        multiple_of: columns that are left in a block are a multiple of this, as kernels like them.
    """

    heads: float = 1 / 3
    columns: float = 0.5
    importance: Importance = "taylor"
    spread: Spread = "model"
    examples: int = 2048
    multiple_of: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self, importance=get_args(Importance), spread=get_args(Spread))
        check_values(
            self,
            ("heads", 0 <= self.heads < 1, "a share from 0 up to, not including, 1", "0.33"),
            ("columns", 0 <= self.columns < 1, "a share from 0 up to, not including, 1", "0.5"),
            ("examples", self.examples >= 1, "at least 1", "2048"),
            ("multiple_of", 1 <= self.multiple_of <= 1 << 20, "at least 1 and at most 1,048,576", "16"),
        )
        if not self.heads and not self.columns:
            raise InvalidInput("--heads or --columns must be above 0", got="0 for both", repair="use --columns 0.5")


@dataclass(frozen=True)
class SparsifySettings(TrainSettings):
    """How many weights become zero, and when.

    Attributes:
        sparsity: share of every matrix.
        schedule: `cubic`, from none to all of them over the first part of the run, or `one-shot`, before its first step.
        ramp: the first part of the run, as a share of its steps.
    """

    sparsity: float = 0.5
    schedule: Schedule = "cubic"
    ramp: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self, schedule=get_args(Schedule))
        check_values(
            self,
            ("sparsity", 0 < self.sparsity < 1, "a share between 0 and 1", "0.5"),
            ("ramp", 0 < self.ramp <= 1, "a share above 0, at most 1", "0.5"),
        )


__all__ = ["Importance", "PruneSettings", "Schedule", "SparsifySettings", "Spread"]
