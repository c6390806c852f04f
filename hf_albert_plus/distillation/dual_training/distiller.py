"""A student and its teacher, trained together."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from ..capture import capture
from ..layer_maps import layer_map
from ..phases import Phase
from ..trainer import Distiller
from .collator import MIXED
from .dual_teacher import DualTeacher
from .parameter_pairs import ParameterPairs, layer_matrices, parameter_pairs
from .terms import DualBatch, SharedProjections


class DualDistiller(Distiller):
    """A masked language model of a small vocabulary beside a teacher that learns it too.

    Zhao et al. 2019, section 3: L = L_mlm of the teacher on the mixed sequence + L_mlm of the student on its own + ε·L_p.
    The teacher and the projections lie in the module tree, so they are trained, and checkpoints hold them.

    Attributes:
        up, down: the paper's U `[H_T, H_S]` and V `[H_S, H_T]`, one pair for all layers; None without a term for them.
    """

    def __init__(self, student: PreTrainedModel, teacher: PreTrainedModel, phase: Phase):
        super().__init__(student, None, phase)
        ours: Any = student.config
        self.dual_teacher = DualTeacher(teacher, vocab_size=ours.vocab_size)
        self.up: nn.Parameter | None = None
        self.down: nn.Parameter | None = None
        if any(isinstance(term, SharedProjections) for term in phase.terms):
            self.layers = layer_map(
                phase.layer_map,
                student_layers=ours.num_hidden_layers,
                teacher_layers=len(layer_matrices(teacher)),
            )
            widths = teacher.config.hidden_size, ours.hidden_size
            # Columns of length 1 keep the size of what they project.
            self.up = nn.Parameter(nn.init.orthogonal_(torch.empty(widths)))
            self.down = nn.Parameter(nn.init.orthogonal_(torch.empty(widths[::-1])))
            self.pairs()

    def describe(self) -> dict[str, Any]:
        """How many matrices are paired, and which are not."""
        pairs = self.pairs()
        return {} if pairs is None else {"paired_matrices": len(pairs.student), "unpaired": list(pairs.left_out)}

    def pairs(self) -> ParameterPairs | None:
        """The paired matrices as they are now; None without a term that reads them."""
        return None if self.up is None else parameter_pairs(self.student, self.dual_teacher.model, self.layers)

    def observe(self, columns: dict[str, torch.Tensor]) -> DualBatch:
        mixed = {name.removeprefix(MIXED): tensor for name, tensor in columns.items() if name.startswith(MIXED)}
        mask, labels = columns["attention_mask"], columns["labels"]
        inputs = {"input_ids": columns["input_ids"], "attention_mask": mask}
        own_logits, other_logits = self.dual_teacher(mixed["input_ids"], mixed["by_student"], mixed["attention_mask"])
        return DualBatch(
            student=capture(self.student, inputs, needs=self.phase.needs),
            teacher=None,
            teacher_logits=None,
            mask_BS=mask,
            labels=labels,
            layers=self.layers,
            projections=self.projections,
            depths=self.depths,
            own_logits=own_logits.float(),
            other_logits=other_logits.float(),
            mixed_labels=mixed["labels"],
            by_student=mixed["by_student"],
            pairs=self.pairs(),
            up=self.up,
            down=self.down,
        )


__all__ = ["DualDistiller"]
