"""Soft targets: the teacher's distribution over classes or over the vocabulary, at a temperature."""

import torch
from torch.nn.functional import cross_entropy, kl_div, log_softmax, mse_loss

from ...errors import InvalidInput
from .reductions import check_shapes, mean_over_selected

# The logit of what cannot be, at any temperature: finite, so that no probability times it is undefined.
_NEVER = -1e30


def soft_target_loss(student_BC: torch.Tensor, teacher_BC: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """T² · KL(softmax(teacher / T) ‖ softmax(student / T)), mean over the batch.

    Hinton, Vinyals and Dean 2015, section 2: the factor T² keeps the gradient's size independent of T. One logit means
    regression: the squared distance to the teacher's prediction, mean over the batch. The code of PKD (Sun et al. 2019)
    divides by the number of classes besides (`reduction="mean"`).

    Shape: logits `[batch, classes]` twice -> scalar.

    Raises:
        InvalidInput: shapes that differ, or a temperature that is not positive.
    """
    check_shapes(student_BC=student_BC, teacher_BC=teacher_BC)
    _check_temperature(temperature)
    if student_BC.shape[1] == 1:
        return mse_loss(student_BC, teacher_BC)
    return _divergence(student_BC, teacher_BC, temperature).mean()


def binary_logits(logits_BC: torch.Tensor) -> torch.Tensor:
    """Each of several labels as two classes that exclude each other, not given and given: `[B, C]` -> `[B·C, 2]`.

    softmax(0, z) is the sigmoid of z, at any temperature, so that a loss of classes becomes one of labels that are independent: its mean
    over rows and labels, as transformers' loss of several labels is.
    """
    return torch.stack([torch.zeros_like(logits_BC), logits_BC], dim=-1).flatten(0, -2)


def span_logits(logits_BSC: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
    """Starts and ends as two examples each, whose classes are the real tokens: `[B, S, 2]` -> `[B·2, S]`. Padding has no probability.

    A mean over examples is then that of starts and of ends, as transformers' loss of spans is.
    """
    hidden_BSC = logits_BSC.masked_fill(~mask_BS.bool()[..., None], _NEVER)
    return hidden_BSC.transpose(1, 2).flatten(0, 1)


def soft_cross_entropy_loss(student_BC: torch.Tensor, teacher_BC: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """-T² · Σ_c softmax(teacher / T) · log softmax(student / T), mean over the batch.

    TinyBERT (Jiao et al. 2020), eq. 10, times Hinton's T²; the paper uses T = 1. Its gradient is that of
    `soft_target_loss`, its minimum T² times the entropy of the teacher. One logit means regression, as there. The
    reference code divides by the number of classes besides (`.mean()` over batch × classes).

    Shape: logits `[batch, classes]` twice -> scalar.

    Raises:
        InvalidInput: shapes that differ, or a temperature that is not positive.
    """
    check_shapes(student_BC=student_BC, teacher_BC=teacher_BC)
    _check_temperature(temperature)
    if student_BC.shape[1] == 1:
        return mse_loss(student_BC, teacher_BC)
    return cross_entropy(student_BC / temperature, (teacher_BC / temperature).softmax(dim=-1)) * temperature**2


def token_soft_target_loss(
    student_BSV: torch.Tensor, teacher_BSV: torch.Tensor, mask_BS: torch.Tensor, *, temperature: float
) -> torch.Tensor:
    """`soft_target_loss` of every token that counts, mean over an example's tokens, then over the batch.

    DistilBERT (Sanh et al. 2019), section 2, L_ce. The mask says which tokens count: the attention mask for all real
    tokens, as the reference code by default, or the masked positions (`--restrict_ce_to_mask`). That code takes one
    mean over all tokens of the batch, in which long texts weigh more.

    Shape: logits `[batch, sequence, vocabulary]` twice and a mask `[batch, sequence]` -> scalar.

    Raises:
        InvalidInput: shapes that differ, or a temperature that is not positive.
    """
    check_shapes(student_BSV=student_BSV, teacher_BSV=teacher_BSV, mask_BS=mask_BS)
    _check_temperature(temperature)
    counts_BS = mask_BS.bool()
    return mean_over_selected(_divergence(student_BSV[counts_BS], teacher_BSV[counts_BS], temperature), counts_BS)


def _divergence(student_BC: torch.Tensor, teacher_BC: torch.Tensor, temperature: float) -> torch.Tensor:
    student = log_softmax(student_BC / temperature, dim=-1)
    teacher = log_softmax(teacher_BC / temperature, dim=-1)
    return kl_div(student, teacher, reduction="none", log_target=True).sum(dim=-1) * temperature**2


def _check_temperature(temperature: float) -> None:
    if not temperature > 0:
        raise InvalidInput("temperature must be greater than 0", got=temperature, repair="use temperature=2")
