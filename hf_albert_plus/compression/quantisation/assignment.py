"""Bits for every block under a budget of bytes."""

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement

from ...errors import InvalidInput


def assign_bits(
    sensitivities: Mapping[str, float],
    *,
    sizes: Mapping[str, Mapping[int, int]],
    errors: Mapping[str, Mapping[int, float]],
    budget: int,
) -> dict[str, int]:
    """The bits with the least Σ sensitivity · error that fit, where no block has fewer than a less sensitive one (Q-BERT, section 3.1,
    with the squared error of HAWQ-V2, eq. 9, to choose among what that rule leaves).

    Args:
        sizes: block -> bits -> bytes.
        errors: block -> bits -> squared distance of its weights from their grid.
        budget: bytes of all blocks together.

    Raises:
        InvalidInput: even the fewest bits do not fit.
    """
    ranked = sorted(sensitivities, key=lambda block: sensitivities[block], reverse=True)
    choices: Sequence[int] = sorted(next(iter(sizes.values())), reverse=True)
    best: tuple[float, tuple[int, ...]] | None = None
    for bits in combinations_with_replacement(choices, len(ranked)):
        chosen = list(zip(ranked, bits, strict=True))
        if sum(sizes[block][b] for block, b in chosen) > budget:
            continue
        loss = sum(sensitivities[block] * errors[block][b] for block, b in chosen)
        if best is None or loss < best[0]:
            best = loss, bits
    if best is None:
        least = sum(min(found.values()) for found in sizes.values())
        raise InvalidInput(
            "--budget must hold the blocks at their fewest bits",
            got=f"{budget / 1e6:.3f} MB for blocks that take {least / 1e6:.3f} MB",
            repair=f"add {(least - budget) / 1e6:.3f} MB to it",
        )
    return dict(zip(ranked, best[1], strict=True))


__all__ = ["assign_bits"]
