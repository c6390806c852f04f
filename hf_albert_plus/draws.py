"""Randomness that belongs to a row."""

import hashlib
from array import array
from collections.abc import Sequence

import torch


class RowDraws:
    """What is drawn for a row depends on the seed, the epoch and its tokens alone. So a resumed run draws what the killed
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


__all__ = ["RowDraws"]
