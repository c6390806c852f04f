"""What all ALBERT-plus models share: how weights begin, outputs with more than one loss, and the mean of a loss."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.modeling_utils import PreTrainedModel
from transformers.utils import ModelOutput

from .configuration_albert_plus import AlbertPlusConfig
from .errors_albert_plus import InvalidInput
from .hub_albert_plus import PushesCodeAndCard
from .layers_albert_plus import (
    AlbertPlusAttention,
    AlbertPlusEmbeddings,
    AlbertPlusLayer,
    AlbertPlusLinearFromZero,
    AlbertPlusNoNorm,
)
from .relative_positions_albert_plus import AlbertPlusRelativeBias, AlbertPlusRelativePositions


class AlbertPlusPreTrainedModel(PushesCodeAndCard, PreTrainedModel):  # type: ignore[misc]  # its push_to_hub takes *args
    """Weight initialisation and what transformers needs to know of the family.

    A class names in `_auto_class` the Auto class that opens it: its models take the code that defines them along when they are saved, so
    that they open where this package is not installed.
    """

    config: AlbertPlusConfig
    base_model_prefix = "albert_plus"
    supports_gradient_checkpointing = True
    counts_every_label = True
    reads_letters = False
    _no_split_modules = [  # noqa: RUF012
        "AlbertPlusEmbeddings",
        "AlbertPlusAttention",
        "AlbertPlusFeedForwardBlock",
        "AlbertPlusDifference",
    ]
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_record_outputs = {"hidden_states": AlbertPlusLayer, "attentions": AlbertPlusAttention}  # noqa: RUF012

    def post_init(self) -> None:
        """
        Raises:
            InvalidInput: a head that reads token by token, on an encoder of letter trigrams.
        """
        super().post_init()
        has_head = self.base_model_prefix in self._modules
        if self.config.letter_trigrams and has_head and not self.reads_letters:
            raise InvalidInput(
                "letter_trigrams are for two towers (AlbertPlusTwinModel), which make words of letters",
                got=type(self).__name__,
                repair="leave letter_trigrams out, or use --method twinbert",
            )

    @torch.no_grad()
    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, AlbertPlusEmbeddings):
            init.copy_(module.position_ids, torch.arange(module.position_ids.shape[-1])[None])
        elif isinstance(module, AlbertPlusRelativeBias):
            self._draw(module.weight)
        elif isinstance(module, AlbertPlusRelativePositions):
            init.copy_(module.buckets, module.of_distances())
        elif isinstance(module, AlbertPlusNoNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, AlbertPlusLinearFromZero):
            init.zeros_(module.weight)
        elif isinstance(module, nn.Linear | nn.Embedding):
            self._draw(module.weight)
            padding = getattr(module, "padding_idx", None)
            if padding is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[padding])

    def _draw(self, weight: torch.Tensor) -> None:
        """Draws a weight from the distribution that the config names."""
        deviation = self.config.initializer_range or 0.02  # as transformers reads a 0
        if self.config.initializer == "normal":
            init.normal_(weight, std=deviation)
        else:
            init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)


def check_tokens(input_ids: Any, inputs_embeds: Any, *, config: AlbertPlusConfig) -> None:
    """Refuses inputs that are no sequences of tokens with a position each.

    Raises:
        ValueError: neither or both of `input_ids` and `inputs_embeds`, letters in place of words, or more tokens than positions.
    """
    if config.letter_trigrams and input_ids is not None:
        raise ValueError("an encoder with letter_trigrams reads words as inputs_embeds: open it as AlbertPlusTwinModel")
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("give exactly one of input_ids and inputs_embeds")
    length = (input_ids if inputs_embeds is None else inputs_embeds).shape[1]
    if length > config.max_position_embeddings:
        raise ValueError(
            f"the sequence length must not exceed max_position_embeddings ({config.max_position_embeddings}), "
            f"got {length}; truncate when tokenising (truncation=True, max_length={config.max_position_embeddings})"
        )


@dataclass
class AlbertPlusForPreTrainingOutput(ModelOutput):
    """`prediction_logits` `[B, S, V]`, `sop_logits` `[B, 2]`, and `loss`, the sum of both cross-entropies."""

    loss: torch.FloatTensor | None = None
    prediction_logits: torch.FloatTensor | None = None
    sop_logits: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


def share_of_mean(labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None) -> torch.Tensor | float:
    """What the mean over this batch's labels counts in the mean over all accumulated batches. The Trainer gives their
    number of labels when it accumulates gradients, and then does not divide the loss itself."""
    return 1.0 if num_items_in_batch is None else labels.ne(-100).sum() / num_items_in_batch


@dataclass
class AlbertPlusExitsOutput(SequenceClassifierOutput):
    """transformers' output with the logits of the exits, one `[B, num_labels]` for each of `config.exit_layers`."""

    exit_logits: tuple[torch.Tensor, ...] | None = None
