"""The ALBERT-plus encoder with its heads. B batch, C choice, S sequence, E embedding, H hidden, V vocabulary."""

from typing import Any, cast

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask, packed_sequence_mask_function
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    MultipleChoiceModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, logging
from transformers.utils.generic import can_return_tuple, is_flash_attention_requested, merge_with_config_defaults
from transformers.utils.output_capturing import capture_outputs

from .base_albert_plus import (
    AlbertPlusExitsOutput,
    AlbertPlusForPreTrainingOutput,
    AlbertPlusPreTrainedModel,
    check_tokens,
    share_of_mean,
)
from .configuration_albert_plus import AlbertPlusConfig
from .exits_albert_plus import EXITS
from .layers_albert_plus import AlbertPlusEmbeddings, AlbertPlusEncoder, AlbertPlusMLMHead, sequence_bounds
from .pooling_albert_plus import read_packed_sequences, read_sequences

logger = logging.get_logger(__name__)


class AlbertPlusModel(AlbertPlusPreTrainedModel):
    """The bare encoder. The pooler is a dense layer with an activation on what `config.pooling` reads, or that as it is."""

    _auto_class = "AutoModel"

    def __init__(self, config: AlbertPlusConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = AlbertPlusEmbeddings(config)
        self.encoder = AlbertPlusEncoder(config)
        self.pools = add_pooling_layer
        has_dense = add_pooling_layer and config.pooler != "none"
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if has_dense else None
        self.pooler_activation = ACT2FN[config.pooler] if has_dense else nn.Identity()
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
        sequence_ids: torch.LongTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """Encodes `input_ids` `[B, S]` (or `inputs_embeds` `[B, S, E]`) into `last_hidden_state` `[B, S, H]` and
        `pooler_output` `[B, H]`. `hidden_states`, when asked for, are L + 1 tensors `[B, S, H]`, one a *call*, so that
        shared blocks give one a layer too. With `sequence_ids` `[B, S]` a row holds several sequences, and each token
        attends to those with its own number, which stand side by side; give `position_ids` that begin anew with each. A model
        without token types passes `token_type_ids` over, with one warning.

        Raises:
            ValueError: neither or both of `input_ids` and `inputs_embeds`, or more tokens than positions.
        """
        check_tokens(input_ids, inputs_embeds, config=self.config)
        if token_type_ids is not None and self.config.type_vocab_size == 0:
            logger.warning_once(
                "this model has no token types (type_vocab_size is 0) and passes token_type_ids over; "
                "tokenise with return_token_type_ids=False to leave them out"
            )
            token_type_ids = None
        hidden_BSH = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        packed = None if sequence_ids is None else packed_sequence_mask_function(sequence_ids)
        attended = attention_mask
        if sequence_ids is not None and is_flash_attention_requested(self.config):
            kwargs.update(sequence_bounds(sequence_ids, attention_mask))
            attended = None
        mask: Any = create_bidirectional_mask(
            config=self.config, inputs_embeds=hidden_BSH, attention_mask=attended, and_mask_function=packed
        )
        hidden_BSH = self.encoder(hidden_BSH, mask, **kwargs)
        pooled_BH = self.pool(hidden_BSH, attention_mask) if self.pools else None
        return BaseModelOutputWithPooling(last_hidden_state=hidden_BSH, pooler_output=pooled_BH)

    def pool(self, hidden_BSH: torch.Tensor, attention_mask_BS: torch.Tensor | None = None) -> torch.Tensor:
        """What heads on whole sequences read, `[B, H]`, of hidden states and a mask with 1 at real tokens."""
        return self.activate(read_sequences(hidden_BSH, attention_mask_BS, pooling=self.config.pooling))

    def activate(self, read_BH: torch.Tensor) -> torch.Tensor:
        """The pooler's dense layer and activation, where it has them."""
        return self.pooler_activation(read_BH if self.pooler is None else self.pooler(read_BH))


class AlbertPlusWithMLMHead(AlbertPlusPreTrainedModel):
    """The encoder with a masked language modelling head, whose decoder is tied to the word embeddings."""

    _tied_weights_keys = {"predictions.decoder.weight": "albert_plus.embeddings.word_embeddings.weight"}  # noqa: RUF012

    def __init__(self, config: AlbertPlusConfig, *, add_pooling_layer: bool):
        super().__init__(config)
        self.albert_plus = AlbertPlusModel(config, add_pooling_layer=add_pooling_layer)
        self.predictions = AlbertPlusMLMHead(config)

    def get_output_embeddings(self) -> nn.Linear:
        return self.predictions.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.predictions.decoder = new_embeddings


class AlbertPlusForMaskedLM(AlbertPlusWithMLMHead):
    """The encoder with a masked language modelling head."""

    _auto_class = "AutoModelForMaskedLM"

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config, add_pooling_layer=False)
        self.post_init()

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
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        outputs = self.albert_plus(*inputs, return_dict=True, **kwargs)
        logits_BSV = self.predictions(outputs.last_hidden_state)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits_BSV, labels, vocab_size=self.config.vocab_size, **kwargs)
        return MaskedLMOutput(
            loss=loss, logits=logits_BSV, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class AlbertPlusForPreTraining(AlbertPlusWithMLMHead):
    """The encoder with ALBERT's two objectives: masked language modelling and, on the pooler's output without
    dropout, sentence order (ALBERT, section 3.1)."""

    _auto_class = "AutoModelForPreTraining"

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config, add_pooling_layer=True)
        self.loss_type = "ForMaskedLM"
        self.sentence_order = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        labels: torch.LongTensor | None = None,
        sentence_order_label: torch.LongTensor | None = None,
        num_sentences_in_batch: torch.Tensor | int | None = None,
        masked_positions: torch.LongTensor | None = None,
        first_positions: torch.LongTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> AlbertPlusForPreTrainingOutput:
        """`labels` `[B, S]` (-100 where not masked), `sentence_order_label` `[B]` (0 in order, 1 swapped, -100 neither).
        Their mean cross-entropies are added, unweighted; either alone is the loss where the other is not given.
        `num_sentences_in_batch` is the number of sentence orders over all accumulated batches (`AccumulatingTrainer`).

        `masked_positions` `[M]`, of the B·S tokens, has logits `[M, V]` computed for these alone, with labels `[M]`: the
        vocabulary is much of a small model's arithmetic. `first_positions` `[N]` are the first tokens of the N sequences of
        packed rows (`sequence_ids`), with labels `[N]`."""
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        outputs = self.albert_plus(*inputs, return_dict=True, **kwargs)
        hidden_BSH, pooled_BH = outputs.last_hidden_state, outputs.pooler_output
        if first_positions is not None:
            packing: Any = (first_positions, kwargs.get("sequence_ids"), attention_mask, self.config.pooling)
            pooled_BH = self.albert_plus.activate(read_packed_sequences(hidden_BSH, *packing))
        if masked_positions is not None:
            hidden_BSH = hidden_BSH.flatten(0, 1)[masked_positions]
        logits_BSV = self.predictions(hidden_BSH)
        sop_logits = self.sentence_order(pooled_BH)
        losses = []
        if labels is not None:
            losses.append(self.loss_function(logits_BSV, labels, vocab_size=self.config.vocab_size, **kwargs))
        if sentence_order_label is not None:
            orders = sentence_order_label.view(-1)
            sop_loss = nn.functional.cross_entropy(sop_logits.float(), orders, reduction="sum")
            # A batch may have no order to tell.
            sop_loss = sop_loss / orders.ne(-100).sum().clamp(min=1)
            if num_sentences_in_batch is not None or labels is None:
                losses.append(sop_loss * share_of_mean(sentence_order_label, num_sentences_in_batch))
            else:
                # The plain Trainer counts masked tokens alone: a batch weighs as much as it does in their mean.
                losses.append(sop_loss * share_of_mean(labels, kwargs.get("num_items_in_batch")))
        return AlbertPlusForPreTrainingOutput(
            loss=sum(losses) if losses else None,
            prediction_logits=logits_BSV,
            sop_logits=sop_logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class AlbertPlusForSequenceClassification(AlbertPlusPreTrainedModel):
    """The encoder with a classifier on what its pooler gives: single label, multi label or regression. With
    `config.exit_layers` it has exits too, which run where they are asked for."""

    _auto_class = "AutoModelForSequenceClassification"

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config)
        self.num_labels = cast(int, config.num_labels)
        self.albert_plus = AlbertPlusModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)
        exits = config.exit_layers or ()
        kind = EXITS.get(config.exit_head)
        self.exits = nn.ModuleList() if kind is None else nn.ModuleList(kind(config) for _ in exits)
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
        output_exits: bool = False,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Logits `[B, num_labels]`; with `labels` also the loss of `config.problem_type`, which is inferred from the
        labels as transformers does it where it is not set. With `output_exits` also the logits of every exit."""
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        if output_exits:
            kwargs["output_hidden_states"] = True
        outputs = self.albert_plus(*inputs, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(outputs.pooler_output))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
            loss = loss * share_of_mean(labels, kwargs.get("num_items_in_batch"))
        facts = {"hidden_states": outputs.hidden_states, "attentions": outputs.attentions}
        if not output_exits:
            return SequenceClassifierOutput(loss=loss, logits=logits, **facts)
        layers = enumerate(self.config.exit_layers or ())
        exit_logits = tuple(self.exit(number, outputs.hidden_states[layer], attention_mask) for number, layer in layers)
        return AlbertPlusExitsOutput(loss=loss, logits=logits, exit_logits=exit_logits, **facts)

    def exit(
        self, number: int, hidden_BSH: torch.Tensor, attention_mask_BS: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Logits `[B, num_labels]` of an exit, from 0, on the hidden states `[B, S, H]` that its layer gave. The one past the last
        is the classifier."""
        is_early = number < len(self.config.exit_layers or ())
        if is_early and self.config.exit_head == "branch":
            return self.exits[number](hidden_BSH, attention_mask_BS)
        pooled_BH = self.albert_plus.pool(hidden_BSH, attention_mask_BS)
        if is_early and self.config.exit_head == "pooled":
            return self.exits[number](pooled_BH)
        return self.classifier(self.dropout(pooled_BH))


class AlbertPlusForTokenClassification(AlbertPlusPreTrainedModel):
    """The encoder with a classifier on every token."""

    _auto_class = "AutoModelForTokenClassification"

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config)
        self.num_labels = cast(int, config.num_labels)
        self.albert_plus = AlbertPlusModel(config, add_pooling_layer=False)
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
        labels: torch.LongTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> TokenClassifierOutput:
        """Logits `[B, S, num_labels]`; with `labels` `[B, S]` (-100 where not counted) also the mean cross-entropy."""
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        outputs = self.albert_plus(*inputs, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, self.config, **kwargs)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class AlbertPlusForQuestionAnswering(AlbertPlusPreTrainedModel):
    """The encoder with scores for every token to start and to end the answer."""

    _auto_class = "AutoModelForQuestionAnswering"

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config)
        self.albert_plus = AlbertPlusModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.LongTensor | None = None,
        position_ids: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        start_positions: torch.LongTensor | None = None,
        end_positions: torch.LongTensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> QuestionAnsweringModelOutput:
        """Start and end logits `[B, S]` each; with both positions `[B]` also the mean of their cross-entropies, where
        positions beyond the sequence do not count."""
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        outputs = self.albert_plus(*inputs, return_dict=True, **kwargs)
        start_BS, end_BS = self.qa_outputs(outputs.last_hidden_state).unbind(-1)
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = self.loss_function(start_BS, end_BS, start_positions, end_positions, **kwargs)
        return QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=start_BS.contiguous(),
            end_logits=end_BS.contiguous(),
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class AlbertPlusForMultipleChoice(AlbertPlusPreTrainedModel):
    """The encoder with a score on what its pooler gives of every choice."""

    _auto_class = "AutoModelForMultipleChoice"

    def __init__(self, config: AlbertPlusConfig):
        super().__init__(config)
        self.albert_plus = AlbertPlusModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()

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
    ) -> MultipleChoiceModelOutput:
        """Inputs `[B, C, S]` -> logits `[B, C]`; with `labels` `[B]` also the mean cross-entropy. Hidden states and
        attentions have B·C rows."""
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        given: Any = input_ids if inputs_embeds is None else inputs_embeds
        if given is None or given.dim() != (3 if inputs_embeds is None else 4):
            shape = None if given is None else tuple(given.shape)
            raise ValueError(f"multiple choice reads input_ids [B, C, S] or inputs_embeds [B, C, S, E], got {shape}")
        choices = given.shape[1]
        rows = (None if tensor is None else tensor.flatten(0, 1) for tensor in inputs)
        outputs = self.albert_plus(*rows, return_dict=True, **kwargs)
        logits_BC = self.classifier(self.dropout(outputs.pooler_output)).view(-1, choices)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits_BC.float(), labels)
            loss = loss * share_of_mean(labels, kwargs.get("num_items_in_batch"))
        return MultipleChoiceModelOutput(
            loss=loss, logits=logits_BC, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )
