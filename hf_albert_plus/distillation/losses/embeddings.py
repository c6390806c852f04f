"""Embeddings: what enters the student's first layer follows what enters the teacher's."""

import torch

from .hidden_states import Projection, hidden_state_loss


def embedding_loss(
    student_BSE: torch.Tensor,
    teacher_BSE: torch.Tensor,
    mask_BS: torch.Tensor,
    *,
    projection: Projection | None = None,
) -> torch.Tensor:
    """1/E · ‖projection(student) - teacher‖² of every real token, mean over tokens, then over the batch.

    TinyBERT (Jiao et al. 2020), eq. 9: `hidden_state_loss` on the embeddings, whose projection is the learned W_e.

    Shape: `[batch, sequence, embedding]` twice, with two widths under a projection, and a mask `[batch, sequence]`
    -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together, widths that differ after the projection among them.
    """
    return hidden_state_loss(student_BSE, teacher_BSE, mask_BS, projection=projection)
