"""The ALBERT-plus encoder and its heads.

Every block is held once and indexed once a layer, so sharing needs no tying: parameter counts, safetensors, gradients
and ONNX initialisers come out right by themselves. Tensors carry their axes in their names where they move: B batch,
S sequence, E embedding, H hidden, N heads, D head width, V vocabulary.
"""

from typing import Any, cast

import torch
from torch import nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling, MaskedLMOutput, SequenceClassifierOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs
from transformers.utils.generic import can_return_tuple, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .configuration_albert_plus import AlbertPlusConfig


class AlbertPlusEmbeddings(nn.Module):
    """Word, position and token-type embeddings at width E, normalised at E, then projected to H where E differs."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.embedding_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.embedding_size)
        self.layer_norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        has_projection = config.embedding_size != config.hidden_size
        self.projection = nn.Linear(config.embedding_size, config.hidden_size) if has_projection else None
        self.position_ids = nn.Buffer(torch.arange(config.max_position_embeddings)[None], persistent=False)

    def forward(
        self,
        input_ids: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
    ) -> torch.Tensor:
        words_BSE = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if position_ids is None:
            position_ids = self.position_ids[:, : words_BSE.shape[1]]
        if token_type_ids is None:
            token_type_ids = torch.zeros(words_BSE.shape[:2], dtype=torch.long, device=words_BSE.device)
        embeddings_BSE = words_BSE + self.position_embeddings(position_ids) + self.token_type_embeddings(token_type_ids)
        embeddings_BSE = self.dropout(self.layer_norm(embeddings_BSE))
        return embeddings_BSE if self.projection is None else self.projection(embeddings_BSE)


def eager_attention_forward(
    module: nn.Module,
    query_BNSD: torch.Tensor,
    key_BNSD: torch.Tensor,
    value_BNSD: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Unpack[TransformersKwargs],
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(QKᵀ·scaling + mask)·V (Attention Is All You Need, eq. 1) -> `[B, S, N, D]`, weights `[B, N, S, S]`."""
    scores_BNSS = torch.matmul(query_BNSD, key_BNSD.transpose(2, 3)) * scaling
    if attention_mask is not None:
        scores_BNSS = scores_BNSS + attention_mask
    weights_BNSS = nn.functional.softmax(scores_BNSS, dim=-1)
    weights_BNSS = nn.functional.dropout(weights_BNSS, p=dropout, training=module.training)
    context_BSND = torch.matmul(weights_BNSS, value_BNSD).transpose(1, 2).contiguous()
    return context_BSND, weights_BNSS


class AlbertPlusAttention(nn.Module):
    """Self-attention with its residual and LayerNorm: one shareable block."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.config = config
        self.is_causal = False
        self.head_size = config.hidden_size // config.num_attention_heads
        self.scaling = self.head_size**-0.5
        self.attention_dropout = config.attention_probs_dropout_prob
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(
        self,
        hidden_BSH: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        heads_BSND = (*hidden_BSH.shape[:-1], -1, self.head_size)
        query_BNSD = self.query(hidden_BSH).view(heads_BSND).transpose(1, 2)
        key_BNSD = self.key(hidden_BSH).view(heads_BSND).transpose(1, 2)
        value_BNSD = self.value(hidden_BSH).view(heads_BSND).transpose(1, 2)
        attention = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        context_BSND, weights_BNSS = attention(
            self,
            query_BNSD,
            key_BNSD,
            value_BNSD,
            attention_mask,
            dropout=self.attention_dropout if self.training else 0.0,
            scaling=self.scaling,
            **kwargs,
        )
        context_BSH = context_BSND.reshape(hidden_BSH.shape).contiguous()
        return self.layer_norm(hidden_BSH + self.dropout(self.output(context_BSH))), weights_BNSS


class AlbertPlusFeedForward(nn.Module):
    """Feed-forward network with its residual and LayerNorm: one shareable block."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACT2FN[config.hidden_act]
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_BSH: torch.Tensor) -> torch.Tensor:
        return self.layer_norm(hidden_BSH + self.dropout(self.output(self.activation(self.intermediate(hidden_BSH)))))


class AlbertPlusLayer(GradientCheckpointingLayer):
    """One pass through an attention block and a feed-forward block. Owns no weight: the encoder hands it the blocks,
    so one instance serves every layer, and its calls are what `output_hidden_states` records."""

    def forward(
        self,
        hidden_BSH: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        attention: AlbertPlusAttention,
        ffn: AlbertPlusFeedForward,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        hidden_BSH, _ = attention(hidden_BSH, attention_mask, **kwargs)
        return ffn(hidden_BSH)


class AlbertPlusEncoder(nn.Module):
    """Layer i runs attention block `attention_map[i]` and feed-forward block `ffn_map[i]`."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.attention_map = config.attention_map
        self.ffn_map = config.ffn_map
        self.attention = nn.ModuleList(AlbertPlusAttention(config) for _ in range(max(self.attention_map) + 1))
        self.ffn = nn.ModuleList(AlbertPlusFeedForward(config) for _ in range(max(self.ffn_map) + 1))
        self.layer = AlbertPlusLayer()

    def forward(
        self,
        hidden_BSH: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        for a, f in zip(self.attention_map, self.ffn_map, strict=True):
            hidden_BSH = self.layer(hidden_BSH, attention_mask, attention=self.attention[a], ffn=self.ffn[f], **kwargs)
        return hidden_BSH


class AlbertPlusPreTrainedModel(PreTrainedModel):
    """Weight initialisation and what transformers needs to know of the family."""

    config: AlbertPlusConfig
    base_model_prefix = "albert_plus"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_record_outputs = {"hidden_states": AlbertPlusLayer, "attentions": AlbertPlusAttention}  # noqa: RUF012

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, AlbertPlusEmbeddings):
            init.copy_(module.position_ids, torch.arange(module.position_ids.shape[-1])[None])
        elif isinstance(module, AlbertPlusMLMHead):
            init.zeros_(module.bias)


class AlbertPlusModel(AlbertPlusPreTrainedModel):
    """The bare encoder. The pooler is a dense layer with tanh on the first token."""

    def __init__(self, config: AlbertPlusConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = AlbertPlusEmbeddings(config)
        self.encoder = AlbertPlusEncoder(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if add_pooling_layer else None
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.embeddings.word_embeddings = cast(nn.Embedding, value)

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """Encodes `input_ids` `[B, S]` (or `inputs_embeds` `[B, S, E]`) into `last_hidden_state` `[B, S, H]` and
        `pooler_output` `[B, H]`. `hidden_states`, when asked for, are L + 1 tensors `[B, S, H]`, one a *call*, so that
        shared blocks give one a layer too.

        Raises:
            ValueError: neither or both of `input_ids` and `inputs_embeds`, or more tokens than positions.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        tokens: Any = input_ids if inputs_embeds is None else inputs_embeds
        length = tokens.shape[1]
        if length > self.config.max_position_embeddings:
            raise ValueError(
                f"the sequence length must not exceed max_position_embeddings ({self.config.max_position_embeddings}), "
                f"got {length}; truncate when tokenising (truncation=True, max_length={self.config.max_position_embeddings})"
            )
        hidden_BSH = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        mask: Any = create_bidirectional_mask(
            config=self.config, inputs_embeds=hidden_BSH, attention_mask=attention_mask
        )
        hidden_BSH = self.encoder(hidden_BSH, mask, **kwargs)
        pooled_BH = None if self.pooler is None else torch.tanh(self.pooler(hidden_BSH[:, 0]))
        return BaseModelOutputWithPooling(last_hidden_state=hidden_BSH, pooler_output=pooled_BH)


class AlbertPlusMLMHead(nn.Module):
    """Dense H→E, activation, LayerNorm, then the decoder E→V that is tied to the word embeddings."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.activation = ACT2FN[config.hidden_act]
        self.layer_norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.embedding_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden_BSH: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.layer_norm(self.activation(self.dense(hidden_BSH))))


class AlbertPlusForMaskedLM(AlbertPlusPreTrainedModel):
    """The encoder with a masked language modelling head."""

    _tied_weights_keys = {  # noqa: RUF012
        "predictions.decoder.weight": "albert_plus.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    }

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config)
        self.albert_plus = AlbertPlusModel(config, add_pooling_layer=False)
        self.predictions = AlbertPlusMLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.predictions.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.predictions.decoder = new_embeddings
        self.predictions.bias = new_embeddings.bias

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> MaskedLMOutput:
        """Logits `[B, S, V]`; with `labels` `[B, S]` (-100 where not masked) also the mean cross-entropy."""
        outputs = self.albert_plus(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        logits_BSV = self.predictions(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits_BSV, labels, vocab_size=self.config.vocab_size, **kwargs)
        return MaskedLMOutput(
            loss=loss, logits=logits_BSV, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class AlbertPlusForSequenceClassification(AlbertPlusPreTrainedModel):
    """The encoder with a classifier on the pooled first token: single label, multi label or regression."""

    # The regression and multi-label losses do not divide by `num_items_in_batch`: the Trainer has to do it, or
    # gradients grow with gradient accumulation.
    accepts_loss_kwargs = False

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config)
        self.num_labels = cast(int, config.num_labels)
        self.albert_plus = AlbertPlusModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Logits `[B, num_labels]`; with `labels` also the loss of `config.problem_type`, which is inferred from the
        labels as transformers does it where it is not set."""
        outputs = self.albert_plus(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        logits = self.classifier(self.dropout(outputs.pooler_output))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


__all__ = [
    "AlbertPlusForMaskedLM",
    "AlbertPlusForSequenceClassification",
    "AlbertPlusModel",
    "AlbertPlusPreTrainedModel",
]
