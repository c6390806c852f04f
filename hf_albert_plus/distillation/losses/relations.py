"""Relations between tokens: what a layer's queries, keys or values say of each other, at any width."""

import torch
from torch.nn.functional import kl_div

from ...errors import InvalidInput
from .attention_scores import attention_log_probabilities, attention_scores
from .reductions import check_shapes, mean_over_tokens, zero_padding

StatePair = tuple[torch.Tensor, torch.Tensor]


def split_heads(states_BNSD: torch.Tensor, relation_heads: int) -> torch.Tensor:
    """Concatenates the heads and splits them again into `relation_heads`.

    MiniLMv2 (Wang et al. 2021), section 3: so a student may have other heads than its teacher.

    Shape: `[batch, heads, sequence, head width]` -> `[batch, relation heads, sequence, heads · head width / relation
    heads]`.

    Raises:
        InvalidInput: a number of relation heads that does not divide the width.
    """
    check_shapes(states_BNSD=states_BNSD)
    batch, heads, sequence, head_width = states_BNSD.shape
    width = heads * head_width
    if relation_heads < 1 or width % relation_heads:
        raise InvalidInput(
            f"relation_heads must divide the width {width}", got=relation_heads, repair=f"use relation_heads={heads}"
        )
    states_BSH = states_BNSD.transpose(1, 2).reshape(batch, sequence, width)
    return states_BSH.view(batch, sequence, relation_heads, width // relation_heads).transpose(1, 2)


def relation_loss(student: StatePair, teacher: StatePair, mask_BS: torch.Tensor) -> torch.Tensor:
    """Σ_key p_T · log(p_T / p_S) with p = softmax(left·rightᵀ / √D) over real keys, mean over relation heads and an
    example's real rows, then over the batch.

    MiniLM (Wang et al. 2020), sections 3.1 and 3.2: the attention relation (Q, K) and the value relation (V, V) of the
    last layers. MiniLMv2 (Wang et al. 2021), section 3: (Q, Q), (K, K) and (V, V), all through `split_heads`.

    Args:
        student: left and right states.
        teacher: those of the teacher, at any head width.

    Shape: `[batch, heads, sequence, head width]` four times and a mask `[batch, sequence]` -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together, such as two numbers of heads.
    """
    student_BNSS, teacher_BNSS = _log_relation(*student, mask_BS), _log_relation(*teacher, mask_BS)
    check_shapes(student_BNSS=student_BNSS, teacher_BNSS=teacher_BNSS)
    divergence_BNS = kl_div(student_BNSS, teacher_BNSS, reduction="none", log_target=True).sum(dim=-1)
    return mean_over_tokens(divergence_BNS.mean(dim=1), mask_BS)


def _log_relation(left_BNSD: torch.Tensor, right_BNSD: torch.Tensor, mask_BS: torch.Tensor) -> torch.Tensor:
    check_shapes(left_BNSD=left_BNSD, right_BNSD=right_BNSD, mask_BS=mask_BS)
    left, right = (zero_padding(states, mask_BS, sequence=2) for states in (left_BNSD, right_BNSD))
    return attention_log_probabilities(attention_scores(left, right), mask_BS)
