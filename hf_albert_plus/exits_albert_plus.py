"""Exits: small classifiers after chosen layers, from which a run may stop early."""

import torch
from torch import nn

from .configuration_albert_plus import AlbertPlusConfig
from .pooling_albert_plus import read_sequences

# Heads of a branch's attention.
BRANCH_HEADS = 2


class AlbertPlusBranchExit(nn.Module):
    """A branch classifier (FastBERT, section 3.2): narrow, self-attention among the tokens, then what the model's pooling reads.

    Only that asks: the first token, or the mean of the tokens. So no token needs a key or value of its own: a score x Kᵀ · q is
    x · q K, and weights w, which sum to one, make of x Vᵀ + v a (Σ w x) Vᵀ + v. A bias of the keys would add the same to all scores.

    Shape: hidden states `[B, S, H]` and a mask `[B, S]` with 1 at real tokens -> logits `[B, C]`.
    """

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        width = config.exit_size
        self.pooling = config.pooling
        self.narrow = nn.Linear(config.hidden_size, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.dense = nn.Linear(width, width)
        self.classifier = nn.Linear(width, config.num_labels or 0)

    def forward(self, hidden_BSH: torch.Tensor, attention_mask_BS: torch.Tensor | None) -> torch.Tensor:
        narrow_BSW = torch.tanh(self.narrow(hidden_BSH))
        read_BW = read_sequences(narrow_BSW, attention_mask_BS, pooling=self.pooling)
        width = narrow_BSW.shape[-1]
        # 1 where a column is of the head.
        of_head_AW = torch.eye(BRANCH_HEADS, dtype=narrow_BSW.dtype, device=narrow_BSW.device).repeat_interleave(
            width // BRANCH_HEADS, dim=1
        )
        probe_BAW = self.query(read_BW)[:, None] * of_head_AW @ self.key.weight
        scores_BAS = probe_BAW @ narrow_BSW.transpose(1, 2) * (width // BRANCH_HEADS) ** -0.5
        if attention_mask_BS is not None:
            scores_BAS = scores_BAS.masked_fill(attention_mask_BS[:, None] == 0, torch.finfo(scores_BAS.dtype).min)
        mean_BAW = scores_BAS.softmax(-1) @ narrow_BSW
        context_BW = (self.value(mean_BAW) * of_head_AW).sum(1)
        return self.classifier(torch.tanh(self.dense(self.output(context_BW))))


class AlbertPlusPooledExit(nn.Module):
    """A linear classifier on what the model's own pooler gives at this depth (PABEE, section 3.1).

    Shape: pooled `[B, H]` -> logits `[B, C]`.
    """

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels or 0)

    def forward(self, pooled_BH: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.dropout(pooled_BH))


# By `exit_head`; "shared" has the model's own pooler and classifier at every depth, and no weight of its own.
EXITS: dict[str, type[nn.Module]] = {"branch": AlbertPlusBranchExit, "pooled": AlbertPlusPooledExit}
