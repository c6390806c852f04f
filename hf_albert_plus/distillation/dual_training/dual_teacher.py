"""A masked language model that reads and predicts in two vocabularies."""

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from ...errors import InvalidInput


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


__all__ = ["DualTeacher"]
