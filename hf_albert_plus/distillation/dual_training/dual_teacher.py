"""Dual training: a teacher that reads and predicts in two vocabularies, trained together with its student."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from ...errors import InvalidInput
from ..capture import capture
from ..distiller import Distiller
from ..phases import Phase, layer_map
from .dual_terms import DualBatch, SharedProjections
from .parameter_pairs import ParameterPairs, layer_matrices, parameter_pairs
from .segmentation import MIXED


class DualTeacher(nn.Module):
    """A masked language model with a second table of embeddings and a second output layer, tied to each other.

    Zhao et al. 2019, section 3, dual training. What lies between embeddings and output layers is shared, so that the
    pieces of both vocabularies come to lie in one space. The model keeps its own table and output layer.

    Args:
        model: with `get_input_embeddings`, `get_output_embeddings` and `inputs_embeds`.
        vocab_size: of the other vocabulary.

    Raises:
        InvalidInput: an output layer that is no linear layer of the embeddings' width.
    """

    def __init__(self, model: PreTrainedModel, *, vocab_size: int):
        super().__init__()
        self.model: Any = model
        own, decoder = model.get_input_embeddings(), model.get_output_embeddings()
        width = getattr(own, "embedding_dim", None)
        if (
            not isinstance(decoder, nn.Linear)
            or decoder.in_features != width
            or model.config.model_type == "mobilebert"
        ):
            raise InvalidInput(
                "dual training needs a masked language model whose output layer is as wide as its embeddings",
                got=type(model).__name__,
                repair="use a BERT, RoBERTa, DistilBERT, ALBERT or ALBERT-plus model as --general-teacher",
            )
        self.other_embeddings = nn.Embedding(vocab_size, width)
        self.other_bias = nn.Parameter(torch.zeros(vocab_size))
        nn.init.normal_(self.other_embeddings.weight, std=getattr(model.config, "initializer_range", 0.02))

    def forward(
        self, input_ids_BS: torch.Tensor, by_student_BS: torch.Tensor, attention_mask_BS: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of every piece in the model's own vocabulary and in the other one.

        Args:
            by_student_BS: True where an id is one of the other vocabulary.

        Shape: `[batch, sequence]` each -> `[batch, sequence, own vocabulary]`, `[batch, sequence, other vocabulary]`.
        """
        own = self.model.get_input_embeddings()(input_ids_BS.masked_fill(by_student_BS, 0))
        other = self.other_embeddings(input_ids_BS.masked_fill(~by_student_BS, 0))
        read: list[torch.Tensor] = []
        hook = self.model.get_output_embeddings().register_forward_pre_hook(lambda _, args: read.append(args[0]))
        try:
            inputs_BSE = torch.where(by_student_BS[..., None], other, own)
            own_logits_BSV = self.model(inputs_embeds=inputs_BSE, attention_mask=attention_mask_BS).logits
        finally:
            hook.remove()
        return own_logits_BSV, nn.functional.linear(read[0], self.other_embeddings.weight, self.other_bias)


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
