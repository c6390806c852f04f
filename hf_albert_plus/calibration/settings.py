"""Settings of calibrating scores."""

from dataclasses import dataclass
from typing import Annotated

from ..errors import check_values, length_rule, seed_rule
from ..option import Option


@dataclass(frozen=True)
class CalibrateScoresSettings:
    """How a temperature is found."""

    split: Annotated[str | None, Option("Rows that were not trained on. Default: the task's validation split.")] = None
    folds: Annotated[int, Option("Parts of the rows; each is judged by a temperature found on the others.")] = 5
    max_length: Annotated[
        int,
        Option("Longest input in tokens; the rest is cut. Default: as the model was trained, or 128.", of_task=True),
    ] = 128
    seed: Annotated[int, Option("Seed of the folds.")] = 42

    def __post_init__(self) -> None:
        check_values(
            self,
            ("folds", 2 <= self.folds <= 1000, "from 2 to 1,000", "5"),
            length_rule(self.max_length),
            seed_rule(self.seed),
        )
