"""How models are pruned, trained for few bits, and given an exit threshold."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from ..errors import InvalidInput, check_known, check_values, length_rule, seed_rule
from ..option import Option, PythonOnly
from ..training.settings import TrainSettings, ZeroSettings

Importance = Literal["taylor", "movement"]
Spread = Literal["model", "block"]
Ranges = Literal["corrected", "released"]


@dataclass(frozen=True)
class PruneSettings(TrainSettings):
    """What is removed. The training settings are those of `movement`, which trains while it measures; `taylor` reads of them the
    batch size and the length."""

    heads: Annotated[float, Option("Share of the attention heads to remove.")] = 0.33
    columns: Annotated[float, Option("Share of the feed-forward columns to remove.")] = 0.5
    depth: Annotated[
        int | None,
        Option(
            "Number of layers to keep: those that the outputs would miss most. Default: all. With --heads 0 --columns 0 nothing else goes."
        ),
    ] = None
    importance: Annotated[
        Importance, Option("taylor: how the loss would change; movement: where weights go in --epochs of training.")
    ] = "taylor"
    spread: Annotated[Spread, Option("Rank over the whole model, or take the same share of every block.")] = "model"
    examples: Annotated[int, Option("Training examples that taylor reads.")] = 2048
    multiple_of: Annotated[int, Option("Columns left in a block are a multiple of this, as kernels like them.")] = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self, importance=get_args(Importance), spread=get_args(Spread))
        check_values(
            self,
            ("heads", 0 <= self.heads < 1, "a share from 0 up to, not including, 1", "0.33"),
            ("columns", 0 <= self.columns < 1, "a share from 0 up to, not including, 1", "0.5"),
            ("examples", self.examples >= 1, "at least 1", "2048"),
            ("multiple_of", 1 <= self.multiple_of <= 1 << 20, "at least 1 and at most 1,048,576", "16"),
            ("depth", self.depth is None or self.depth >= 1, "at least 1", "3"),
        )
        if self.report_to and self.importance != "movement":
            raise InvalidInput(
                "--report-to is for --importance movement, which trains",
                got=f"--importance {self.importance}",
                repair="leave it out",
            )
        if not self.heads and not self.columns and self.depth is None:
            raise InvalidInput(
                "--heads or --columns must be above 0, or --depth be given",
                got="0 for both",
                repair="use --columns 0.5",
            )

    def describe(self) -> dict[str, Any]:
        described = super().describe()
        if self.depth is None:
            del described["depth"]
        return described


@dataclass(frozen=True)
class SparsifySettings(ZeroSettings):
    """How many weights become zero while a classifier is fine-tuned, and when."""

    sparsity: float = 0.5

    def __post_init__(self) -> None:
        check_values(self, ("sparsity", 0 < self.sparsity < 1, "a share between 0 and 1", "0.5"))
        super().__post_init__()


# The widths that weights of a block may have.
BITS = (2, 3, 4, 8)


def parse_bits(text: str) -> tuple[int, ...]:
    """`"2,4"` -> `(2, 4)`.

    Raises:
        InvalidInput: something else than whole numbers.
    """
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise InvalidInput(
            "--bits must be whole numbers with commas between them", got=repr(text), repair="use --bits 2,4,8"
        ) from None


@dataclass(frozen=True)
class QatSettings(TrainSettings):
    """How a model is trained for few bits. Everything but the blocks' weights has 8."""

    bits: Annotated[
        tuple[int, ...],
        Option(
            "Bits of the blocks' weights: 8, 4, 3 or 2; or several, as 2,4,8, from which each block gets its own.",
            parse=parse_bits,
        ),
    ] = (8,)
    budget: Annotated[
        float | None,
        Option("MB (10^6 bytes) that the packed model may take, where there are several --bits."),
    ] = None
    groups: Annotated[
        int | None,
        Option("Groups of consecutive rows of a weight that share their levels. Default: each row its own."),
    ] = None
    decay: Annotated[float, Option("Decay of the moving averages of the activations' ranges.")] = 0.9999
    ranges: Annotated[
        Ranges,
        Option(
            "How these averages begin: corrected weighs batches by their age alone; released begins at the first one, as nlp-architect."
        ),
    ] = "corrected"
    draws: Annotated[
        int, Option("Parts of the data that curvature is measured on, its mean and deviation taken over them.")
    ] = 5
    examples: Annotated[int, Option("Examples of each draw; with --share, those that are computed at a time.")] = 64
    share: Annotated[
        float | None,
        Option("Share of the training rows that all draws have together. Q-BERT: 0.1. Default: --examples each."),
    ] = None
    learning_rate: float = 2e-5

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
            ("share", self.share is None or 0 < self.share <= 1, "a share above 0, at most 1", "0.1"),
        )
        check_known(self, ranges=get_args(Ranges))
        if (len(set(self.bits)) > 1) != (self.budget is not None):
            raise InvalidInput(
                "several --bits are chosen from under a --budget, and one needs none",
                got=f"--bits {','.join(map(str, self.bits))} and --budget {self.budget}",
                repair="add --budget MB, or leave it out",
            )


Kind = Literal["entropy", "confidence", "patience"]
# An error in the unit of a task's numbers may be large.
LARGEST_DROP = 1e15


@dataclass(frozen=True)
class CalibrateSettings:
    """How a threshold is found."""

    criterion: Annotated[
        Kind,
        Option("entropy of the classes (FastBERT), confidence in one, or patience: how often it was the same."),
    ] = "entropy"
    max_drop: Annotated[
        float, Option("Points of the task's first metric that may be lost, or in the unit of an error.")
    ] = 0.5
    folds: Annotated[int, Option("Parts of the rows; each is judged by a threshold found on the others.")] = 5
    split: Annotated[str | None, Option("Rows that were not trained on. Default: the task's validation split.")] = None
    exit_cost: Annotated[
        float | None,
        Option(
            "What looking at an exit costs, in layers; an exit that does not save as much is dropped. Default: from its multiply-adds."
        ),
    ] = None
    keep_exits: Annotated[bool, Option("Drop no exit: a loop needs them at even distances.")] = False
    max_length: Annotated[
        int,
        Option("Longest input in tokens; the rest is cut. Default: as the model was trained, or 128.", of_task=True),
    ] = 128
    batch_size: Annotated[int, PythonOnly("it changes no outcome")] = 64
    seed: Annotated[int, Option("Seed of the folds.")] = 42

    def __post_init__(self) -> None:
        check_known(self, criterion=get_args(Kind))
        check_values(
            self,
            ("max_drop", 0 <= self.max_drop <= LARGEST_DROP, "a number from 0", "0.5"),
            ("exit_cost", self.exit_cost is None or 0 <= self.exit_cost <= 1000, "from 0 to 1,000 layers", "0.2"),
            ("folds", 2 <= self.folds <= 1000, "from 2 to 1,000", "5"),
            ("batch_size", 1 <= self.batch_size <= 1 << 24, "at least 1 and at most 16,777,216", "64"),
            length_rule(self.max_length),
            seed_rule(self.seed),
        )
