"""Configuration of the ALBERT-plus encoder: one encoder, two sharing maps."""

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig


def resolve_sharing(sharing: str | int | list[int], *, num_hidden_layers: int, name: str) -> tuple[int, ...]:
    """Block of every layer under a sharing value.

    Args:
        sharing: `"all"` (one block), `"none"` (a block a layer), a number of groups G, or the block of each layer.
        num_hidden_layers: L, the number of layers.
        name: the config field the value comes from, for the error.

    Returns:
        L block ids. Among G groups layer i reads block `i * G // L`, in integers: the float formulas of the 2019 code
        and of transformers' ALBERT put some layers in the wrong group (layer 15 of 22 with 22 groups, for one).

    Raises:
        ValueError: the value does not describe L layers.
    """
    if sharing == "all":
        return (0,) * num_hidden_layers
    if sharing == "none":
        return tuple(range(num_hidden_layers))
    if isinstance(sharing, str):
        raise ValueError(
            f"{name} must be 'all', 'none', a number of groups or a list of block ids, got {sharing!r}; use 'all'"
        )
    if isinstance(sharing, int):
        if not 1 <= sharing <= num_hidden_layers:
            raise ValueError(
                f"{name} as a number of groups must lie between 1 and num_hidden_layers ({num_hidden_layers}), "
                f"got {sharing}; use 1 for full sharing or {num_hidden_layers} for none"
            )
        return tuple(layer * sharing // num_hidden_layers for layer in range(num_hidden_layers))
    if len(sharing) != num_hidden_layers:
        raise ValueError(
            f"{name} as a list must name one block for each of the {num_hidden_layers} layers, got {len(sharing)} "
            f"entries: {sharing}; give {num_hidden_layers} entries or change num_hidden_layers"
        )
    blocks = sorted(set(sharing))
    if blocks != list(range(len(blocks))):
        raise ValueError(
            f"{name} must number its blocks 0, 1, 2, … without a gap, got the blocks {blocks}; "
            f"renumber them 0 to {len(blocks) - 1}"
        )
    return tuple(sharing)


@strict
class AlbertPlusConfig(PreTrainedConfig):
    """An encoder with factorised embeddings and freely chosen cross-layer sharing.

    The defaults are ALBERT-base (ALBERT, Table 1). `attention_sharing` and `ffn_sharing` each take `"all"`, `"none"`,
    a number of groups, or a list with the block of every layer, so ALBERT's four modes and groups are values, and BERT
    is `"none"`/`"none"` with `embedding_size == hidden_size`. A block owns its LayerNorm, so sharing a block shares
    that LayerNorm too. The projection from embedding to hidden size exists only where the two differ, as in the 2019
    code. `hidden_dropout_prob` also acts after the feed-forward network, as there.

    Example:
        >>> AlbertPlusConfig(num_hidden_layers=6, attention_sharing="all", ffn_sharing=2).ffn_map
        (0, 0, 0, 1, 1, 1)
    """

    model_type = "albert_plus"

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    attention_sharing: str | int | list[int] = "all"
    ffn_sharing: str | int | list[int] = "all"
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float | int = 0.0
    attention_probs_dropout_prob: float | int = 0.0
    classifier_dropout_prob: float | int = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = 3
    tie_word_embeddings: bool = True

    def validate_sizes(self):
        for name in ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                     "intermediate_size", "max_position_embeddings", "type_vocab_size"):  # fmt: skip
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}; use a positive number")
        if self.hidden_size % self.num_attention_heads:
            divisors = [
                n for n in range(1, self.hidden_size + 1) if self.hidden_size % n == 0 and self.hidden_size // n >= 16
            ]
            raise ValueError(
                f"hidden_size ({self.hidden_size}) must be a multiple of num_attention_heads "
                f"({self.num_attention_heads}); use one of {divisors} heads"
            )
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(
                f"pad_token_id ({self.pad_token_id}) must lie below vocab_size ({self.vocab_size}); "
                "use the tokenizer's pad_token_id and its len() as vocab_size"
            )

    def validate_dropout(self):
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}; use 0.1")

    def validate_activation(self):
        from transformers.activations import ACT2FN

        if self.hidden_act not in ACT2FN:
            raise ValueError(
                f"hidden_act must be an activation that transformers knows, got {self.hidden_act!r}; "
                "use 'gelu', 'gelu_new' or 'relu'"
            )

    def validate_sharing(self):
        resolve_sharing(self.attention_sharing, num_hidden_layers=self.num_hidden_layers, name="attention_sharing")
        resolve_sharing(self.ffn_sharing, num_hidden_layers=self.num_hidden_layers, name="ffn_sharing")

    @property
    def attention_map(self) -> tuple[int, ...]:
        """Attention block of every layer."""
        return resolve_sharing(
            self.attention_sharing, num_hidden_layers=self.num_hidden_layers, name="attention_sharing"
        )

    @property
    def ffn_map(self) -> tuple[int, ...]:
        """Feed-forward block of every layer."""
        return resolve_sharing(self.ffn_sharing, num_hidden_layers=self.num_hidden_layers, name="ffn_sharing")


__all__ = ["AlbertPlusConfig"]
