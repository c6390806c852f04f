"""Exits: small classifiers after chosen layers, from which a run may stop early."""

import torch
from torch import nn

from .configuration_albert_plus import AlbertPlusConfig


class AlbertPlusBranchExit(nn.Module):
    """A branch classifier (FastBERT, section 3.2): narrow, self-attention among the tokens, then the first token.

    Shape: hidden states `[B, S, H]` and a mask `[B, S]` with 1 at real tokens -> logits `[B, C]`.
    """

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        width = config.exit_size
        self.narrow = nn.Linear(config.hidden_size, width)
        self.attention = nn.MultiheadAttention(width, num_heads=2, batch_first=True)
        self.dense = nn.Linear(width, width)
        self.classifier = nn.Linear(width, config.num_labels or 0)

    def forward(self, hidden_BSH: torch.Tensor, attention_mask_BS: torch.Tensor | None) -> torch.Tensor:
        narrow_BSW = torch.tanh(self.narrow(hidden_BSH))
        padding_BS = None if attention_mask_BS is None else attention_mask_BS == 0
        first_B1W, _ = self.attention(
            narrow_BSW[:, :1], narrow_BSW, narrow_BSW, key_padding_mask=padding_BS, need_weights=False
        )
        return self.classifier(torch.tanh(self.dense(first_B1W[:, 0])))


class AlbertPlusPooledExit(nn.Module):
    """A linear classifier on what the model's own pooler makes of the first token at this depth (PABEE, section 3.1).

    Shape: the pooled first token `[B, H]` -> logits `[B, C]`.
    """

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels or 0)

    def forward(self, pooled_BH: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.dropout(pooled_BH))


# By `exit_head`; "shared" has the model's own pooler and classifier at every depth, and no weight of its own.
EXITS: dict[str, type[nn.Module]] = {"branch": AlbertPlusBranchExit, "pooled": AlbertPlusPooledExit}


__all__ = ["EXITS", "AlbertPlusBranchExit", "AlbertPlusPooledExit"]
