"""The order in which training sees its rows, and the randomness that belongs to a row.

Both depend on seed and epoch alone, not on the number of processes nor on where a run was resumed.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import Sampler
from transformers import Trainer
from transformers.trainer_callback import TrainerState
from transformers.trainer_pt_utils import get_length_grouped_indices

from ..records import processes


def by_length(trainer_class: type[Trainer], lengths: list[int], seed: int) -> type[Trainer]:
    """The trainer with rows of similar length in every batch of all processes together, in an order that depends on seed
    and epoch alone: not on what dropout drew, nor on the number of processes, nor on where a run was resumed."""

    class ByLength(trainer_class):  # type: ignore[misc,valid-type]
        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            batch_size = self.args.train_batch_size * self.args.gradient_accumulation_steps * processes.count()
            return LengthGrouped(lengths, batch_size, epoch=lambda: epoch_of(self.state), seed=seed)

    return ByLength


class LengthGrouped(Sampler[int]):
    """Rows of similar length in every batch, in an order that depends on seed and epoch alone."""

    def __init__(self, lengths: list[int], batch_size: int, *, epoch: Callable[[], int], seed: int):
        self.lengths, self.batch_size, self.epoch, self.seed = lengths, batch_size, epoch, seed

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed((self.seed << 20) + self.epoch())
        return iter(get_length_grouped_indices(self.lengths, self.batch_size, generator=generator))


class Shuffled(Sampler[int]):
    """All rows in an order that depends on seed and epoch alone."""

    def __init__(self, length: int, *, epoch: Callable[[], int], seed: int):
        self.length, self.epoch, self.seed = length, epoch, seed

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[int]:
        order = torch.randperm(self.length, generator=torch.Generator().manual_seed((self.seed << 20) + self.epoch()))
        for part in order.split(1 << 16):
            yield from part.tolist()


def epoch_of(state: TrainerState) -> int:
    """The epoch that a run is in; its state says 0.9999… where sums of fractions end one."""
    return int((state.epoch or 0) + 1e-6)


class RowDraws:
    """The randomness of rows: what is drawn for one depends on the seed, the epoch and its tokens alone. So a resumed run draws what the killed
    one would have drawn, two processes draw what one does, and every epoch draws anew.

    Attributes:
        epoch: set by the training loop as each one begins.
        copies: how many epochs have draws of their own before they come again; None for all.
    """

    def __init__(self, seed: int, *, copies: int | None = None):
        self.seed = seed
        self.copies = copies
        self.epoch = 0

    def generator(self, ids: Sequence[int]) -> torch.Generator:
        """The generator of a row with these tokens."""
        epoch = self.epoch if self.copies is None else self.epoch % self.copies
        content = array("q", [self.seed, epoch, *ids]).tobytes()
        digest = hashlib.blake2b(content, digest_size=8).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
