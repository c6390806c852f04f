"""Distilling a fine-tuned classifier into an ALBERT-plus student."""

from .distill import DistilSettings, distill, student_architecture
from .hidden_states import hidden_state_loss
from .layer_map import uniform_layer_map
from .soft_targets import soft_target_loss

__all__ = [
    "DistilSettings",
    "distill",
    "hidden_state_loss",
    "soft_target_loss",
    "student_architecture",
    "uniform_layer_map",
]
