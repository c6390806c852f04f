"""The parts of the ALBERT-plus encoder: embeddings, the two shareable blocks, and the loop that runs them.

Every block is held once and indexed once a layer, so sharing needs no tying: parameter counts, safetensors, gradients
and ONNX initialisers come out right by themselves. Tensors carry their axes in their names where they move: B batch,
S sequence, E embedding, H hidden, W block width (the bottleneck's, or H), M what queries and keys read (W or H), N heads, D head
width, I all heads', F inner width of a feed-forward network, V vocabulary.
"""

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs

from .configuration_albert_plus import AlbertPlusConfig
from .relative_positions_albert_plus import AlbertPlusRelativeBias, AlbertPlusRelativePositions, with_bias


class AlbertPlusNoNorm(nn.Module):
    """γ ⊙ x + β, without statistics (MobileBERT, section 3.3)."""

    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden * self.weight + self.bias


class AlbertPlusTanhGelu(nn.Module):
    """transformers' `gelu_new`. In training it is one kernel, of which the backward pass keeps the input alone; in inference it
    is written out, as exporters and their passes know it."""

    def __init__(self) -> None:
        super().__init__()
        self.formula = ACT2FN["gelu_new"]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(hidden, approximate="tanh") if self.training else self.formula(hidden)


def _activation(config: AlbertPlusConfig) -> nn.Module:
    return AlbertPlusTanhGelu() if config.hidden_act == "gelu_new" else ACT2FN[config.hidden_act]


def _norm(config: AlbertPlusConfig, size: int) -> nn.Module:
    return AlbertPlusNoNorm(size) if config.norm_type == "no_norm" else nn.LayerNorm(size, eps=config.layer_norm_eps)


class AlbertPlusEmbeddings(nn.Module):
    """Word, position and token-type embeddings at width E, normalised at E, then projected to H where E differs. With
    trigrams the words are projected first, 3E→H, and the rest happens at H."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.trigram = config.trigram_embeddings
        width = config.hidden_size if self.trigram else config.embedding_size
        self.word_embeddings = nn.Embedding(config.vocab_size, config.embedding_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.layer_norm = _norm(config, width)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        has_projection = self.trigram or config.embedding_size != config.hidden_size
        source = 3 * config.embedding_size if self.trigram else config.embedding_size
        self.projection = nn.Linear(source, config.hidden_size) if has_projection else None
        self.position_ids = nn.Buffer(torch.arange(config.max_position_embeddings)[None], persistent=False)

    def forward(
        self,
        input_ids: torch.Tensor | None,
        token_type_ids: torch.Tensor | None,
        position_ids: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
    ) -> torch.Tensor:
        embeddings = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        batch, length = embeddings.shape[:2]
        if position_ids is None:
            position_ids = self.position_ids[:, :length]
        if self.trigram and self.projection is not None:
            padded = nn.functional.pad(embeddings, (0, 0, 1, 1))
            embeddings = self.projection(torch.cat([padded[:, 2:], embeddings, padded[:, :-2]], dim=-1))
            # MobileBERT's order of addition: without norms, the last bits of a sum grow over the layers.
            embeddings = embeddings + self.position_embeddings(position_ids)
        if self.token_type_embeddings is not None:
            if token_type_ids is None:
                token_type_ids = torch.zeros(batch, length, dtype=torch.long, device=embeddings.device)
            embeddings = embeddings + self.token_type_embeddings(token_type_ids)
        if not self.trigram:
            embeddings = embeddings + self.position_embeddings(position_ids)
        embeddings = self.dropout(self.layer_norm(embeddings))
        return embeddings if self.trigram or self.projection is None else self.projection(embeddings)


class AlbertPlusLinearFromZero(nn.Linear):
    """A linear module whose weights begin at zero."""


class AlbertPlusDifference(nn.Module):
    """What a layer adds to a product that it shares: a product of rank r, and its bias (relaxed sharing: Bae et al. 2024,
    arXiv 2410.20672)."""

    def __init__(self, shared: nn.Linear, rank: int):
        super().__init__()
        self.down = nn.Linear(shared.in_features, rank, bias=False)
        self.up = AlbertPlusLinearFromZero(rank, shared.out_features)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.up(self.down(hidden))


def _own_parts(config: AlbertPlusConfig, block: nn.Module) -> nn.ModuleDict | None:
    """A layer's own differences from the products of a block, by their names, and its norm; None where it has none of its own."""
    if config.layer_rank is None:
        return None
    products = {name: part for name, part in block.named_children() if isinstance(part, nn.Linear)}
    differences = {name: AlbertPlusDifference(part, config.layer_rank) for name, part in products.items()}
    return nn.ModuleDict({**differences, "layer_norm": _norm(config, config.hidden_size)})


def _product(block: nn.Module, name: str, inputs: torch.Tensor, own: nn.ModuleDict | None) -> torch.Tensor:
    """What a block's product of that name gives, and what the layer adds to it."""
    shared = getattr(block, name)(inputs)
    return shared if own is None else shared + own[name](inputs)


def _normalised(block: nn.Module, hidden: torch.Tensor, own: nn.ModuleDict | None) -> torch.Tensor:
    norm: nn.Module = block.layer_norm if own is None else own["layer_norm"]  # type: ignore[assignment]
    return norm(hidden)


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


class AlbertPlusBottleneck(nn.Module):
    """From the hidden to the block's width, narrower or wider (MobileBERT, section 3.1)."""

    def __init__(self, config: AlbertPlusConfig, width: int):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, width)
        self.layer_norm = _norm(config, width)

    def forward(self, hidden_BSH: torch.Tensor) -> torch.Tensor:
        return self.layer_norm(self.dense(hidden_BSH))


class AlbertPlusAttention(nn.Module):
    """Self-attention with its residual and norm: one shareable block. With a bottleneck, the residual is the hidden states at the
    block's width, values read the hidden states themselves, and queries and keys these or, with `query_key_bottleneck`, another
    reduction of them.

    Args:
        heads: how many it has, each of the size that `num_attention_heads` heads of the whole width have.
    """

    def __init__(self, config: AlbertPlusConfig, heads: int):
        super().__init__()
        self.config = config
        self.is_causal = False
        width = config.bottleneck_size or config.hidden_size
        self.head_size = width // config.num_attention_heads
        self.scaling = self.head_size**-0.5
        self.attention_dropout = config.attention_probs_dropout_prob
        inner, is_whole = heads * self.head_size, config.layer_rank is None
        has_bottleneck = config.bottleneck_size is not None
        reduces = has_bottleneck and config.query_key_bottleneck
        matched = width if reduces else config.hidden_size
        self.query = nn.Linear(matched, inner, bias=is_whole)
        self.key = nn.Linear(matched, inner, bias=is_whole)
        self.value = nn.Linear(config.hidden_size, inner, bias=is_whole)
        self.output = nn.Linear(inner, width, bias=is_whole)
        self.layer_norm = _norm(config, width) if is_whole else None
        buckets = config.relative_attention_buckets
        self.relative_bias = None if buckets is None else AlbertPlusRelativeBias(heads, buckets)
        self.dropout = nn.Dropout(0.0 if has_bottleneck else config.hidden_dropout_prob)
        self.residual_bottleneck = AlbertPlusBottleneck(config, width) if has_bottleneck else None
        self.query_key_bottleneck = AlbertPlusBottleneck(config, width) if reduces else None

    def forward(
        self,
        hidden_BSH: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        own: nn.ModuleDict | None = None,
        buckets_SS: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        residual_BSW = hidden_BSH if self.residual_bottleneck is None else self.residual_bottleneck(hidden_BSH)
        matched_BSM = hidden_BSH if self.query_key_bottleneck is None else self.query_key_bottleneck(hidden_BSH)
        heads_BSND = (*hidden_BSH.shape[:-1], -1, self.head_size)
        query_BNSD = _product(self, "query", matched_BSM, own).view(heads_BSND).transpose(1, 2)
        key_BNSD = _product(self, "key", matched_BSM, own).view(heads_BSND).transpose(1, 2)
        value_BNSD = _product(self, "value", hidden_BSH, own).view(heads_BSND).transpose(1, 2)
        if self.relative_bias is not None and buckets_SS is not None:
            attention_mask = with_bias(attention_mask, self.relative_bias(buckets_SS).to(query_BNSD.dtype))
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
        context_BSI = context_BSND.reshape(*hidden_BSH.shape[:-1], -1).contiguous()
        attended_BSW = residual_BSW + self.dropout(_product(self, "output", context_BSI, own))
        return _normalised(self, attended_BSW, own), weights_BNSS


class AlbertPlusFeedForward(nn.Module):
    """One feed-forward network with its residual and norm."""

    def __init__(self, config: AlbertPlusConfig, intermediate_size: int):
        super().__init__()
        width, is_whole = config.bottleneck_size or config.hidden_size, config.layer_rank is None
        self.intermediate = nn.Linear(width, intermediate_size, bias=is_whole)
        self.activation = _activation(config)
        self.output = nn.Linear(intermediate_size, width, bias=is_whole)
        self.dropout = nn.Dropout(config.hidden_dropout_prob if config.bottleneck_size is None else 0.0)
        self.layer_norm = _norm(config, width) if is_whole else None

    def forward(self, hidden_BSW: torch.Tensor, own: nn.ModuleDict | None = None) -> torch.Tensor:
        inner_BSF = self.activation(_product(self, "intermediate", hidden_BSW, own))
        return _normalised(self, hidden_BSW + self.dropout(_product(self, "output", inner_BSF, own)), own)


class AlbertPlusFeedForwardBlock(AlbertPlusFeedForward):
    """A feed-forward network, the others that run before it and, with a bottleneck, the way back to the hidden width,
    where the layer's input is the residual: one shareable block."""

    def __init__(self, config: AlbertPlusConfig, intermediate_size: int):
        super().__init__(config, intermediate_size)
        others = range(config.num_feedforward_networks - 1)
        self.stacked = nn.ModuleList(AlbertPlusFeedForward(config, intermediate_size) for _ in others)
        self.expansion = None
        if config.bottleneck_size is not None:
            self.expansion = nn.Linear(config.bottleneck_size, config.hidden_size)
            self.expansion_dropout = nn.Dropout(config.hidden_dropout_prob)
            self.expansion_layer_norm = _norm(config, config.hidden_size)

    def forward(  # type: ignore[override]
        self, hidden_BSW: torch.Tensor, layer_input_BSH: torch.Tensor, own: nn.ModuleDict | None = None
    ) -> torch.Tensor:
        for network in self.stacked:
            hidden_BSW = network(hidden_BSW)
        hidden_BSW = super().forward(hidden_BSW, own)
        if self.expansion is None:
            return hidden_BSW
        return self.expansion_layer_norm(layer_input_BSH + self.expansion_dropout(self.expansion(hidden_BSW)))


class AlbertPlusLayer(GradientCheckpointingLayer):
    """One pass through an attention block and a feed-forward block, which the encoder hands it. Owns no weight but, with
    `layer_rank`, its norms, biases and differences. Its calls are what `output_hidden_states` records and what gradient
    checkpointing runs again."""

    def __init__(self, config: AlbertPlusConfig, attention: nn.Module, ffn: nn.Module):
        super().__init__()
        self.own_attention = _own_parts(config, attention)
        self.own_ffn = _own_parts(config, ffn)

    def forward(
        self,
        hidden_BSH: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        *,
        attention: AlbertPlusAttention,
        ffn: AlbertPlusFeedForwardBlock,
        buckets_SS: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        attended_BSW, _ = attention(hidden_BSH, attention_mask, self.own_attention, buckets_SS, **kwargs)
        return ffn(attended_BSW, hidden_BSH, self.own_ffn)


def sequence_begins(sequence_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """True where a sequence of packed rows `[B, S]` begins. Padding is a sequence of its own."""
    if attention_mask is not None:
        sequence_ids = sequence_ids.masked_fill(attention_mask == 0, -1)
    begins = torch.ones_like(sequence_ids, dtype=torch.bool)
    begins[:, 1:] = sequence_ids[:, 1:] != sequence_ids[:, :-1]
    return begins


def sequence_bounds(sequence_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> dict[str, torch.Tensor | int]:
    """Where the sequences of packed rows `[B, S]` begin and end, as flash attention's kernels for sequences of several lengths
    ask for it: `[N + 1]` places in the B·S tokens."""
    begins = sequence_begins(sequence_ids, attention_mask)
    bounds = nn.functional.pad(begins.flatten().nonzero().flatten(), (0, 1), value=begins.numel()).int()
    longest = sequence_ids.shape[1]
    return {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": longest, "max_length_k": longest}


class AlbertPlusEncoder(nn.Module):
    """Layer i runs attention block `attention_map[i]` and feed-forward block `ffn_map[i]`."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.attention_map = config.attention_map
        self.ffn_map = config.ffn_map
        self.attention = nn.ModuleList(AlbertPlusAttention(config, heads) for heads in config.attention_heads)
        self.ffn = nn.ModuleList(AlbertPlusFeedForwardBlock(config, size) for size in config.intermediate_sizes)
        self.layers = nn.ModuleList(
            AlbertPlusLayer(config, self.attention[a], self.ffn[f])
            for a, f in zip(self.attention_map, self.ffn_map, strict=True)
        )
        self.relative_positions = None
        if config.relative_attention_buckets is not None:
            self.relative_positions = AlbertPlusRelativePositions(config)

    def forward(
        self,
        hidden_BSH: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        return self.run(hidden_BSH, attention_mask, **kwargs)

    def run(
        self,
        hidden_BSH: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        first: int = 0,
        end: int | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> torch.Tensor:
        """Runs the layers from `first` up to `end`, from 0; all where neither is given."""
        layers = list(zip(self.layers, self.attention_map, self.ffn_map, strict=True))
        buckets_SS = None if self.relative_positions is None else self.relative_positions(hidden_BSH.shape[1])
        for layer, a, f in layers[first:end]:
            blocks = {"attention": self.attention[a], "ffn": self.ffn[f]}
            hidden_BSH = layer(hidden_BSH, attention_mask, **blocks, buckets_SS=buckets_SS, **kwargs)
        return hidden_BSH


class AlbertPlusMLMHead(nn.Module):
    """Dense H→E, activation, LayerNorm, then the decoder E→V that is tied to the word embeddings."""

    def __init__(self, config: AlbertPlusConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.activation = _activation(config)
        self.layer_norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.decoder = nn.Linear(config.embedding_size, config.vocab_size)

    def forward(self, hidden_BSH: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.layer_norm(self.activation(self.dense(hidden_BSH))))
