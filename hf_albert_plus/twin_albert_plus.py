"""TwinBERT's two towers: one encoder reads both texts, each by itself, and what it makes of a document can be kept."""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs
from transformers.utils.generic import can_return_tuple

from .base_albert_plus import AlbertPlusPreTrainedModel, share_of_mean
from .configuration_albert_plus import AlbertPlusConfig
from .letters_albert_plus import AlbertPlusLetterTrigrams
from .modeling_albert_plus import AlbertPlusModel

# At the learning rates of encoders two single numbers hardly move. From a = 1 and b = 0 the sigmoid would stay between
# 0.27 and 0.73; from these it goes from 0.08 at a cosine of 0 to 0.92 at 1.
_SCALE, _BIAS = 5.0, -2.5


class AlbertPlusWeightedAverage(nn.Module):
    """Σ softmax(u·h)ᵢ hᵢ over real tokens, u learned (TwinBERT, section 3.1). A bias would cancel in the softmax."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.score = nn.Linear(config.hidden_size, 1, bias=False)

    def forward(self, hidden_BSH: torch.Tensor, attention_mask_BS: torch.Tensor | None) -> torch.Tensor:
        scores_BS = self.score(hidden_BSH).squeeze(-1)
        if attention_mask_BS is not None:
            scores_BS = scores_BS.masked_fill(attention_mask_BS == 0, torch.finfo(scores_BS.dtype).min)
        return (scores_BS.softmax(dim=-1)[..., None] * hidden_BSH).sum(dim=1)


class AlbertPlusFirstToken(nn.Module):
    """The first token as it is."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()

    def forward(self, hidden_BSH: torch.Tensor, attention_mask_BS: torch.Tensor | None) -> torch.Tensor:
        return hidden_BSH[:, 0]


class AlbertPlusCosineCrossing(nn.Module):
    """a·cos(q, k) + b: logistic regression on the cosine (TwinBERT)."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(_SCALE))
        self.bias = nn.Parameter(torch.tensor(_BIAS))

    def forward(self, query_BH: torch.Tensor, document_BH: torch.Tensor) -> torch.Tensor:
        return self.scale * nn.functional.cosine_similarity(query_BH, document_BH, dim=-1) + self.bias


class AlbertPlusResidualCrossing(nn.Module):
    """w·(F(x) + x) + b with x = max(q, k), element by element, and F a dense layer with an activation (TwinBERT,
    eq. 4-6)."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.classifier = nn.Linear(config.hidden_size, 1)

    def forward(self, query_BH: torch.Tensor, document_BH: torch.Tensor) -> torch.Tensor:
        larger_BH = torch.maximum(query_BH, document_BH)
        return self.classifier(self.activation(self.dense(larger_BH)) + larger_BH).squeeze(-1)


_POOLINGS = {"weighted_average": AlbertPlusWeightedAverage, "first_token": AlbertPlusFirstToken}
_CROSSINGS = {"cosine": AlbertPlusCosineCrossing, "residual": AlbertPlusResidualCrossing}


@dataclass
class AlbertPlusTwinOutput(ModelOutput):
    """`logits` `[B]`, whose sigmoid is the probability that a pair matches, both embeddings `[B, H]`, and `loss`."""

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    query_embedding: torch.Tensor | None = None
    document_embedding: torch.Tensor | None = None


class AlbertPlusTwinModel(AlbertPlusPreTrainedModel):
    """Scores pairs of texts that never meet in the encoder (TwinBERT). `encode` makes a vector of a text, `cross` a logit
    of two vectors: those of documents are computed once and kept."""

    _auto_class = "AutoModelForTextEncoding"

    main_input_name = "query_input_ids"
    reads_letters = True

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config)
        self.albert_plus = AlbertPlusModel(config, add_pooling_layer=False)
        self.letters = AlbertPlusLetterTrigrams() if config.letter_trigrams else None
        self.pooling = _POOLINGS[config.twin_pooling](config)
        self.crossing = _CROSSINGS[config.twin_crossing](config)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, AlbertPlusCosineCrossing):
            init.constant_(module.scale, _SCALE)
            init.constant_(module.bias, _BIAS)

    def encode(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        """Texts `[B, S]` -> their vectors `[B, H]`. With `letter_trigrams` the tokens are letters, and a single text's words have one
        type."""
        if self.letters is not None:
            table = self.albert_plus.get_input_embeddings()
            words_BWE, attention_mask = self.letters(input_ids, attention_mask, table)
            outputs = self.albert_plus(
                inputs_embeds=words_BWE, attention_mask=attention_mask, return_dict=True, **kwargs
            )
        else:
            outputs = self.albert_plus(input_ids, attention_mask, token_type_ids, return_dict=True, **kwargs)
        return self.pooling(outputs.last_hidden_state, attention_mask)

    def cross(self, query_BH: torch.Tensor, document_BH: torch.Tensor) -> torch.Tensor:
        """Vectors of queries and of documents -> logits `[B]`. One query `[1, H]` meets all documents."""
        return self.crossing(query_BH, document_BH)

    @can_return_tuple
    def forward(
        self,
        query_input_ids: torch.LongTensor,
        query_attention_mask: torch.Tensor | None,
        document_input_ids: torch.LongTensor,
        document_attention_mask: torch.Tensor | None,
        query_token_type_ids: torch.LongTensor | None = None,
        document_token_type_ids: torch.LongTensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> AlbertPlusTwinOutput:
        """Pairs of texts, `[B, S]` each of its own length -> logits `[B]`; with `labels` `[B]`, 0 or 1 or a probability
        between, also the mean binary cross-entropy."""
        query_BH = self.encode(query_input_ids, query_attention_mask, query_token_type_ids, **kwargs)
        document_BH = self.encode(document_input_ids, document_attention_mask, document_token_type_ids, **kwargs)
        logits_B = self.cross(query_BH, document_BH)
        loss = None
        if labels is not None:
            loss = nn.functional.binary_cross_entropy_with_logits(logits_B.float(), labels.float())
            loss = loss * share_of_mean(labels, kwargs.get("num_items_in_batch"))
        return AlbertPlusTwinOutput(
            loss=loss, logits=logits_B, query_embedding=query_BH, document_embedding=document_BH
        )
