"""The order of two segments: the hard labels of a pre-trained student beside its masked words."""

import torch
from torch.nn.functional import cross_entropy

from ...text.formats import NO_ORDER
from .reductions import check_shapes


def sentence_order_loss(logits_BC: torch.Tensor, labels_B: torch.Tensor) -> torch.Tensor:
    """-log softmax(logits)[label], mean over the batch, where an example without a label (-100) counts 0.

    The next sentence of BERT (Devlin et al. 2019), section 3.1, which MobileBERT (Sun et al. 2020), section 3.5, adds to its
    pre-training distillation; or the sentence order of ALBERT (Lan et al. 2020), section 3.1.

    Shape: logits `[batch, 2]` and labels `[batch]` -> scalar.

    Raises:
        InvalidInput: shapes that do not fit together.
    """
    check_shapes(logits_BC=logits_BC, labels_B=labels_B)
    return cross_entropy(logits_BC, labels_B, reduction="none", ignore_index=NO_ORDER).mean()
