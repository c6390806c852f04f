"""Attention scores: how much every token asks of every other, before mask and softmax."""

import torch

from .reductions import check_shapes, mean_over_tokens, zero_padding


def attention_scores(query_BNSD: torch.Tensor, key_BNSD: torch.Tensor) -> torch.Tensor:
    """Q·Kᵀ / √D, before mask and softmax.

    Vaswani et al. 2017, eq. 1.

    Shape: `[batch, heads, sequence, head width]` twice -> `[batch, heads, sequence, sequence]`, queries by keys.

    Raises:
        InvalidInput: shapes that differ.
    """
    check_shapes(query_BNSD=query_BNSD, key_BNSD=key_BNSD)
    return query_BNSD @ key_BNSD.transpose(-1, -2) / query_BNSD.shape[-1] ** 0.5


def attention_log_probabilities(scores_BNSS: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
    """log softmax over the real keys of every row; 0 at padding keys, where a divergence then adds nothing.

    Shape: `[batch, heads, sequence, sequence]` and a mask `[batch, sequence]` -> `[batch, heads, sequence, sequence]`.
    """
    padding_B11S = ~mask_BS.bool()[:, None, None, :]
    # An infinity would make NaN of the rows of an example without a real token.
    scores = zero_padding(scores_BNSS, mask_BS, sequence=2).masked_fill(
        padding_B11S, torch.finfo(scores_BNSS.dtype).min
    )
    return scores.log_softmax(dim=-1).masked_fill(padding_B11S, 0)


def attention_score_loss(student_BNSS: torch.Tensor, teacher_BNSS: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
    """(student - teacher)² of the scores, mean over heads, an example's real keys and real rows, then over the batch.

    TinyBERT (Jiao et al. 2020), eq. 7: before the softmax, which the paper found to converge faster. The reference code
    takes masked scores, sets those below -100 to zero, and means over the whole padded tensor.

    Shape: scores `[batch, heads, sequence, sequence]` twice and a mask `[batch, sequence]` -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together, such as two numbers of heads.
    """
    check_shapes(student_BNSS=student_BNSS, teacher_BNSS=teacher_BNSS, mask_BS=mask_BS)
    difference = student_BNSS - teacher_BNSS
    for sequence in (2, 3):
        difference = zero_padding(difference, mask_BS, sequence=sequence)
    sums_BS = difference.square().mean(dim=1).sum(dim=-1)
    keys_B1 = mask_BS.bool().sum(dim=1, keepdim=True).clamp(min=1)
    return mean_over_tokens(sums_BS / keys_B1, mask_BS)
