"""An encoder in torch that pools: it gives the vector of each text beside its hidden states."""

from typing import Any

import torch
from transformers import PreTrainedModel

from ..conversion.settings import Pooling, SentencePooling
from ..pooling_albert_plus import read_sequences
from .tensors import SentenceOutput
from .vector_prefixes import LEAST_LENGTH


class SentenceEncoder(PreTrainedModel):
    """An encoder that gives the vector of each text beside its hidden states: the mean of the real tokens or the first token
    (Reimers and Gurevych, 2019, section 3), divided by its L2 norm where asked for."""

    # Its encoder was checked when it was opened.
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True

    def __init__(self, encoder: PreTrainedModel, *, pooling: SentencePooling | Pooling, normalize: bool):
        super().__init__(encoder.config)
        self.encoder, self.normalize = encoder, normalize
        self.pooling: Pooling = "mean" if pooling == "mean" else "first"

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> SentenceOutput:
        """int64 tensors `[batch, sequence]` -> hidden states and vectors."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        hidden_BSH = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types).last_hidden_state
        vectors_BH = read_sequences(hidden_BSH, attention_mask, pooling=self.pooling)
        if self.normalize:
            # As torch.nn.functional.normalize, in operators that TensorRT's parser lists.
            vectors_BH = vectors_BH / vectors_BH.square().sum(dim=-1, keepdim=True).sqrt().clamp(min=LEAST_LENGTH)
        return SentenceOutput(last_hidden_state=hidden_BSH, sentence_embedding=vectors_BH)

    def set_attn_implementation(self, *given: Any, **named: Any) -> None:
        """As the encoder's, whose layers read it."""
        self.encoder.set_attn_implementation(*given, **named)
