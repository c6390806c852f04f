"""Masked language modelling over two vocabularies: the teacher's objective in dual training."""

import torch
from torch.nn.functional import cross_entropy

from ...model_inputs import IGNORED
from .reductions import check_shapes, mean_over_tokens


def dual_vocabulary_loss(
    own_logits_BSV: torch.Tensor, other_logits_BSV: torch.Tensor, labels_BS: torch.Tensor, from_other_BS: torch.Tensor
) -> torch.Tensor:
    """-log softmax(logits of the vocabulary that cut the piece)[label], mean over an example's labelled pieces, then over
    the batch.

    Zhao et al. 2019 (Extreme Language Model Compression with Optimal Subwords and Shared Projections), section 3, dual
    training: each vocabulary has a softmax of its own. A label of -100 is not counted, and an example without labels
    counts 0.

    Args:
        labels_BS: ids of the vocabulary that cut the piece.
        from_other_BS: of any dtype, 1 where that was the other vocabulary.

    Shape: logits `[batch, sequence, vocabulary]`, the vocabularies of different sizes, labels and `from_other_BS`
    `[batch, sequence]` -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together.
    """
    check_shapes(own_logits_BSV=own_logits_BSV, labels_BS=labels_BS, from_other_BS=from_other_BS)
    check_shapes(other_logits_BSV=other_logits_BSV, labels_BS=labels_BS)
    labelled_BS, other_BS = labels_BS != IGNORED, from_other_BS.bool()
    values_BS = own_logits_BSV.new_zeros(labels_BS.shape)
    for logits_BSV, chosen_BS in (
        (own_logits_BSV, labelled_BS & ~other_BS),
        (other_logits_BSV, labelled_BS & other_BS),
    ):
        values_T = cross_entropy(logits_BSV[chosen_BS], labels_BS[chosen_BS], reduction="none")
        values_BS = values_BS.masked_scatter(chosen_BS, values_T)
    return mean_over_tokens(values_BS, labelled_BS)
