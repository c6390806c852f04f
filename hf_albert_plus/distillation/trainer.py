"""transformers' Trainer with a teacher beside the student."""

from typing import Any

import torch
from transformers import PreTrainedModel, Trainer

from ..glue import reads_token_types
from .hidden_states import hidden_state_loss
from .layer_map import uniform_layer_map
from .soft_targets import soft_target_loss


class DistillationTrainer(Trainer):
    """Trains on `soft_weight`·soft targets + (1 - `soft_weight`)·labels + `hidden_weight`·hidden states.

    The teacher runs in eval mode and without gradients. Hidden states are recorded per call, so a shared block gives one
    for each layer it runs as.
    """

    def __init__(
        self,
        *args: Any,
        teacher: PreTrainedModel,
        temperature: float,
        soft_weight: float,
        hidden_weight: float,
        **options: Any,
    ):
        super().__init__(*args, **options)
        # The loss below is a mean over the batch: the Trainer has to divide it when it accumulates gradients.
        self.model_accepts_loss_kwargs = False
        self.teacher: Any = teacher.eval().requires_grad_(False)
        self.teacher.to(self.args.device)
        self.temperature = temperature
        self.soft_weight = soft_weight
        self.hidden_weight = hidden_weight
        student: Any = self.model
        self.student_config = student.config
        self.layer_map = uniform_layer_map(student.config.num_hidden_layers, teacher.config.num_hidden_layers)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        match_hidden = self.hidden_weight > 0
        known = {name: value for name, value in inputs.items() if name != "labels"}
        unread = () if reads_token_types(self.student_config) else ("token_type_ids",)
        read = {name: value for name, value in inputs.items() if name not in unread}
        student = model(**read, output_hidden_states=match_hidden)
        with torch.no_grad():
            teacher = self.teacher(**known, output_hidden_states=match_hidden)
        soft = soft_target_loss(student.logits.float(), teacher.logits.float(), temperature=self.temperature)
        loss = self.soft_weight * soft + (1 - self.soft_weight) * student.loss
        if match_hidden:
            layers = zip(student.hidden_states, (teacher.hidden_states[m] for m in self.layer_map), strict=True)
            terms = [hidden_state_loss(s.float(), t.float(), inputs["attention_mask"]) for s, t in layers]
            loss = loss + self.hidden_weight * torch.stack(terms).mean()
        return (loss, student) if return_outputs else loss


__all__ = ["DistillationTrainer"]
