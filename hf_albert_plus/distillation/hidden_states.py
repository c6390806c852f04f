"""Hidden states: the student's layers follow chosen layers of the teacher."""

import torch


def hidden_state_loss(
    student_BSH: torch.Tensor, teacher_BSH: torch.Tensor, attention_mask_BS: torch.Tensor
) -> torch.Tensor:
    """Mean squared error over the hidden values of real tokens (TinyBERT, eq. 8, with equal widths and no projection).

    Padding is left out, so that the loss of an example does not depend on its batch.

    Shape: `[batch, sequence, hidden]` twice and `[batch, sequence]` -> scalar.
    """
    squared_BS = (student_BSH - teacher_BSH).square().mean(dim=-1)
    mask_BS = attention_mask_BS.to(squared_BS.dtype)
    return (squared_BS * mask_BS).sum() / mask_BS.sum()


__all__ = ["hidden_state_loss"]
