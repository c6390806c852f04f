"""The task's own loss against its labels."""

import torch
from torch.nn import functional


def label_loss(logits_BC: torch.Tensor, labels_B: torch.Tensor) -> torch.Tensor:
    """Cross-entropy with the labels, the squared error of one logit with a number, or the mean of the binary cross-entropies where a row
    may have several labels; mean over the batch. No rows cost nothing.

    Shape: logits `[batch, classes]`, labels `[batch]`, or 0 and 1 of several `[batch, classes]` -> scalar.
    """
    if len(logits_BC) == 0:
        return logits_BC.sum()
    if labels_B.dim() == 2:
        return functional.binary_cross_entropy_with_logits(logits_BC, labels_B.to(logits_BC.dtype))
    if logits_BC.shape[1] == 1:
        return functional.mse_loss(logits_BC[:, 0], labels_B.to(logits_BC.dtype))
    return functional.cross_entropy(logits_BC, labels_B.long())
