"""The shapes of candidates: how many of the teacher's layers stay, and how much of each.

Width is one number, the share of the feed-forward columns that stays. Heads follow it more slowly: the studies' best stacks keep two
thirds of the heads beside half of the columns, which is the share to the power of 0.6.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

_HEADS_FOLLOW = 0.6
# Thinner than this nothing was seen to recover.
THINNEST = 0.08


@dataclass(frozen=True, order=True)
class Slimmed:
    """What stays of a teacher.

    Attributes:
        layers: how many stay.
        width: share of the feed-forward columns that stays in them.
        embedding_size: E of the narrower embeddings; None where they stay as they are.
        base: name of the finished candidate that it is cut from; None where it is cut from the teacher.
        rank: of the differences between layers that all share one block; None where each has its own.
        rounds: how often it has learned what it is given; beyond the first it is its base as a whole, which learns again.
    """

    layers: int
    width: float
    embedding_size: int | None = None
    base: str | None = None
    rank: int | None = None
    rounds: int = 1

    @property
    def heads(self) -> float:
        """The share of the heads that stays."""
        return float(self.width**_HEADS_FOLLOW)

    @property
    def name(self) -> str:
        embeddings = "" if self.embedding_size is None else f"-e{self.embedding_size}"
        base = "" if self.base is None else f"-{hashlib.sha256(self.base.encode()).hexdigest()[:4]}"
        shared = "" if self.rank is None else f"-shared{self.rank}"
        again = "" if self.rounds == 1 else f"-again{self.rounds}"
        return f"layers{self.layers}-width{100 * self.width:.0f}{embeddings}{shared}{base}{again}"

    def again(self) -> "Slimmed":
        """The same, which learns once more."""
        return replace(self, base=self.name, rounds=self.rounds + 1)

    def is_as(self, other: "Slimmed") -> bool:
        """Whether another shape has the same parts, however long it learned and whatever it was cut from."""
        return replace(self, base=None, rounds=1) == replace(other, base=None, rounds=1)

    def can_be_cut_from(self, other: "Slimmed") -> bool:
        """Whether another shape has all that this one has, and something more."""
        has_all = other.layers >= self.layers and other.width >= self.width and other.rank is None
        return has_all and not self.is_as(other) and other.embedding_size in (None, self.embedding_size)

    def in_words(self) -> str:
        width = (
            ""
            if self.width >= 1
            else f", {100 * self.heads:.0f} % of the heads, {100 * self.width:.0f} % of the columns"
        )
        embeddings = "" if self.embedding_size is None else f", E = {self.embedding_size}"
        shared = "" if self.rank is None else f", one block with differences of rank {self.rank}"
        again = {1: "", 2: ", learned again"}.get(self.rounds, f", learned again {self.rounds - 1} times")
        return f"{self.layers} layers{width}{shared}{embeddings}{again}"


@dataclass(frozen=True)
class Work:
    """How much an encoder computes for a text: the layers that run, and its heads and columns summed over them."""

    layers: int
    heads: int
    columns: int

    @classmethod
    def of(cls, config: Any) -> "Work":
        return cls(
            layers=config.num_hidden_layers,
            heads=sum(config.attention_heads[block] for block in config.attention_map),
            columns=sum(config.intermediate_sizes[block] for block in config.ffn_map),
        )

    def slimmed(self, shape: Slimmed) -> "Work":
        """That of a model of another shape, made from one with this."""
        kept = shape.layers / self.layers
        return Work(
            layers=shape.layers,
            heads=max(shape.layers, round(self.heads * kept * shape.heads)),
            columns=max(shape.layers, round(self.columns * kept * shape.width)),
        )


def shape_of_time(layers: int, *, time: float, predicted: Callable[[Slimmed], float]) -> Slimmed | None:
    """The widest shape of so many layers that is predicted to take `time`; None where even the thinnest takes longer, or where the
    whole layers take far less.

    Args:
        time: milliseconds a text.
        predicted: shape -> milliseconds a text, the less the thinner.
    """
    thin, wide = THINNEST, 1.0
    if predicted(Slimmed(layers, thin)) > time or predicted(Slimmed(layers, wide)) < 0.8 * time:
        return None
    for _ in range(20):
        middle = (thin + wide) / 2
        if predicted(Slimmed(layers, middle)) > time:
            wide = middle
        else:
            thin = middle
    return Slimmed(layers, round(thin, 2))


def can_share(config: Any) -> bool:
    """Whether the layers of a model can share one block that differs from layer to layer: they have blocks of one size each."""
    sizes = (config.block_attention_heads, config.block_intermediate_sizes, config.bottleneck_size, config.layer_rank)
    own = len(set(config.attention_map)) == len(set(config.ffn_map)) == config.num_hidden_layers
    return own and all(size is None for size in sizes) and config.num_feedforward_networks == 1
