"""Distillation losses as published, each a function of tensors.

Losses over tokens reduce as `reductions.py` says, with the attention mask: 1 real, 0 padding, any dtype. They compute
in the dtype they are given: half-precision outputs go through `.float()` first. Unless a loss says otherwise nothing is
detached: the teacher runs under `torch.no_grad()`.
"""

from .attention_scores import attention_score_loss, attention_scores
from .attention_transfer import attention_transfer_loss
from .cosine import cosine_loss
from .dual_vocabulary import dual_vocabulary_loss
from .embeddings import embedding_loss
from .exits_by_depth import exits_by_depth_loss
from .feature_maps import feature_map_loss, feature_statistics_losses
from .hard_labels import label_loss
from .hidden_states import hidden_state_loss
from .masked_lm import masked_lm_loss
from .patient import patient_loss
from .reductions import mean_over_tokens
from .relations import relation_loss, split_heads
from .segment_order import sentence_order_loss
from .self_distillation import self_distillation_loss
from .shared_projections import down_projection_loss, up_projection_loss
from .soft_targets import (
    binary_logits,
    soft_cross_entropy_loss,
    soft_target_loss,
    span_logits,
    token_soft_target_loss,
)
from .two_towers import two_tower_loss
from .vector_cosine import vector_cosine_loss
from .vector_error import vector_error_loss
from .vector_similarity import vector_similarity_loss

__all__ = [
    "attention_score_loss",
    "attention_scores",
    "attention_transfer_loss",
    "binary_logits",
    "cosine_loss",
    "down_projection_loss",
    "dual_vocabulary_loss",
    "embedding_loss",
    "exits_by_depth_loss",
    "feature_map_loss",
    "feature_statistics_losses",
    "hidden_state_loss",
    "label_loss",
    "masked_lm_loss",
    "mean_over_tokens",
    "patient_loss",
    "relation_loss",
    "self_distillation_loss",
    "sentence_order_loss",
    "soft_cross_entropy_loss",
    "soft_target_loss",
    "span_logits",
    "split_heads",
    "token_soft_target_loss",
    "two_tower_loss",
    "up_projection_loss",
    "vector_cosine_loss",
    "vector_error_loss",
    "vector_similarity_loss",
]
