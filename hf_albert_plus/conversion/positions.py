"""More positions than a model was trained with, from those that it has."""

import torch


def interpolated_positions(table_PE: torch.Tensor, count: int) -> torch.Tensor:
    """A table of more positions, `[count, E]`, which lie between the old ones.

    Position p is read at p·P/count of the old table, linearly between the two rows beside that place; beyond the last row it is the last row. Where
    `count` is a multiple m of P, every m-th row is an old one. The places are those of positional interpolation (Chen et al. 2023, arXiv 2306.15595),
    which has them for rotary positions. Distances become shorter, so the model has to be trained further.

    Args:
        table_PE: of learned absolute positions, without rows below that of the first token.
        count: at least P.
    """
    places = torch.arange(count, dtype=torch.float64) * len(table_PE) / count
    below = places.floor().long()
    above = (below + 1).clamp(max=len(table_PE) - 1)
    share = (places - below)[:, None]
    between = (1 - share) * table_PE[below].double() + share * table_PE[above].double()
    return between.to(table_PE.dtype)
