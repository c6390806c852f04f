"""Masked language modelling: the hard labels of a pre-trained student."""

import torch
from torch.nn.functional import cross_entropy

from ...model_inputs import IGNORED
from .reductions import check_shapes, mean_over_selected


def masked_lm_loss(logits_BSV: torch.Tensor, labels_BS: torch.Tensor) -> torch.Tensor:
    """-log softmax(logits)[label], mean over an example's labelled tokens, then over the batch.

    BERT (Devlin et al. 2019), section 3.1; DistilBERT (Sanh et al. 2019), section 2, L_mlm. A label of -100 is not
    counted, and an example without labels counts 0. The models of transformers take one mean over the labelled tokens
    of the whole batch.

    Shape: logits `[batch, sequence, vocabulary]` and labels `[batch, sequence]` -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together.
    """
    check_shapes(logits_BSV=logits_BSV, labels_BS=labels_BS)
    labelled_BS = labels_BS != IGNORED
    return mean_over_selected(
        cross_entropy(logits_BSV[labelled_BS], labels_BS[labelled_BS], reduction="none"), labelled_BS
    )
