"""All exits and the last layer learn the labels together, the deeper the more."""

from collections.abc import Sequence

import torch

from ...errors import InvalidInput
from .hard_labels import label_loss
from .reductions import check_shapes


def exits_by_depth_loss(exits: Sequence[torch.Tensor], depths: Sequence[int], labels_B: torch.Tensor) -> torch.Tensor:
    """Σ_j j·L_j / Σ_j j over the exits' depths j, the last layer's among them; L_j is the cross-entropy of exit j with the labels,
    its squared error where it has one logit, or the mean of its binary cross-entropies where a row may have several labels; mean over the
    batch.

    PABEE (Zhou et al. 2020), eq. 5.

    Args:
        exits: logits of every exit and of the last layer.
        depths: the layer each of them follows, from 1.

    Shape: logits `[batch, classes]` each, labels `[batch]`, or 0 and 1 of several `[batch, classes]` -> scalar.

    Raises:
        InvalidInput: no exits, as many depths as exits not given, or shapes that differ.
    """
    if not exits or len(exits) != len(depths):
        raise InvalidInput(
            "exits must hold logits, one for each depth", got=f"{len(exits)} and {len(depths)}", repair="pass as many"
        )
    losses = []
    for depth, exit_BC in zip(depths, exits, strict=True):
        check_shapes(exit_BC=exit_BC, first_BC=exits[0])
        losses.append(depth * label_loss(exit_BC, labels_B))
    return torch.stack(losses).sum() / sum(depths)
