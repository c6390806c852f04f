"""Distilling a fine-tuned classifier into an ALBERT-plus student."""

from .distill import DistilSettings, check_student, distill
from .hidden_states import hidden_state_loss
from .layer_map import uniform_layer_map
from .soft_targets import soft_target_loss

__all__ = ["DistilSettings", "check_student", "distill", "hidden_state_loss", "soft_target_loss", "uniform_layer_map"]
