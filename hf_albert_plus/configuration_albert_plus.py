"""Configuration of the ALBERT-plus encoder: one encoder, two sharing maps."""

import math
from functools import wraps
from typing import Any

from huggingface_hub.dataclasses import strict
from huggingface_hub.errors import StrictDataclassError
from transformers.configuration_utils import PreTrainedConfig

from .errors_albert_plus import InvalidInput
from .sharing_albert_plus import resolve_sharing

INITIALIZERS = ("truncated_normal", "normal")
NORM_TYPES = ("layer_norm", "no_norm")
POOLINGS = ("first", "mean")
POOLERS = ("tanh", "relu", "none")
EXIT_CRITERIA = ("entropy", "confidence", "patience")
EXIT_HEADS = ("branch", "pooled", "shared")
PROBLEM_TYPES = (None, "regression", "single_label_classification", "multi_label_classification")
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob")
TWIN_POOLINGS = ("weighted_average", "first_token")
TWIN_CROSSINGS = ("cosine", "residual")
# The first tokens of a tokenizer of letters; the bytes come after them.
LETTER_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# The largest sizes of a text encoder: some ten times those of the largest ones that were published. What is beyond them is a slip or
# an attack, and is refused before anything is made of that size.
LARGEST = {
    "num_hidden_layers": 1000, "num_hidden_groups": 1000, "inner_group_num": 1000, "num_feedforward_networks": 1000,
    "hidden_size": 16384, "embedding_size": 16384, "bottleneck_size": 16384, "exit_size": 16384,
    "layer_rank": 16384, "relative_attention_buckets": 256,
    "num_attention_heads": 16384, "intermediate_size": 65536, "num_labels": 65536, "type_vocab_size": 65536,
    "vocab_size": 1 << 24, "max_position_embeddings": 1 << 20,
}  # fmt: skip
# The files that a checkpoint is saved with.
OUR_MODULES = ("configuration_albert_plus", "modeling_albert_plus", "twin_albert_plus")
# Where a checkpoint saved with its code finds every class, whichever of them it was saved from.
_AUTO_MAP = {
    "AutoConfig": "configuration_albert_plus.AlbertPlusConfig",
    "AutoModel": "modeling_albert_plus.AlbertPlusModel",
    **{
        f"AutoModel{head}": f"modeling_albert_plus.AlbertPlus{head}"
        for head in (
            "ForPreTraining", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification",
            "ForQuestionAnswering", "ForMultipleChoice",
        )
    },
}  # fmt: skip


def check_size(name: str, size: int | None, *, least: int = 1) -> None:
    """
    Raises:
        InvalidInput: a size that no encoder has.
    """
    if size is not None and not (isinstance(size, int) and least <= size <= LARGEST[name]):
        raise InvalidInput(
            f"{name} must be from {least} to {LARGEST[name]}", got=size, repair="use a number in that range"
        )


def check_labels(config: PreTrainedConfig) -> None:
    """
    Raises:
        InvalidInput: names of labels whose ids have gaps, or a problem that is none.
    """
    names: Any = config.id2label
    if sorted(names) != list(range(len(names))) or not all(isinstance(name, str) for name in names.values()):
        raise InvalidInput(
            "id2label must name the labels 0, 1, 2, … without a gap", got=names, repair="give every label its name"
        )
    if config.problem_type not in PROBLEM_TYPES:
        raise InvalidInput(
            f"problem_type must be one of {', '.join(map(str, PROBLEM_TYPES[1:]))}, or null",
            got=repr(config.problem_type),
            repair="use null: the number of labels decides",
        )


class InvalidConfig(InvalidInput, StrictDataclassError):
    """The fields of a config break a rule."""

    @classmethod
    def of(cls, error: Exception) -> "InvalidConfig":
        """What went wrong in the strict dataclass, which hides a rule that was broken in an error of its own."""
        cause = error.__cause__ or error
        if isinstance(cause, InvalidInput):
            return cls(cause.rule, got=cause.got, repair=cause.repair)
        field = str(error).partition("'")[2].partition("'")[0] if error.__cause__ else None
        rule = f"{field} of a config must be of its type" if field else "the fields of a config must fit together"
        return cls(rule, got=str(cause), repair="correct it, or leave it out for its default")


def _our_names(auto_map: dict[str, str]) -> dict[str, str]:
    """The entries of an auto_map that name classes of this package, such as the towers, in the checkpoint's own files."""
    names = {key: str(name).rpartition("--")[2] for key, name in auto_map.items()}
    return {key: name for key, name in names.items() if name.partition(".")[0] in OUR_MODULES}


def _says_what_to_repair(kind: type[PreTrainedConfig]) -> type[PreTrainedConfig]:
    """Lets a config refuse its fields with `InvalidConfig`."""
    initialise: Any = kind.__init__

    @wraps(initialise)
    def checked(self: Any, *args: Any, **fields: Any) -> None:
        try:
            initialise(self, *args, **fields)
        except (AttributeError, StrictDataclassError, TypeError, ValueError) as error:
            raise InvalidConfig.of(error) from None

    kind.__init__ = checked  # type: ignore[method-assign]
    return kind


@_says_what_to_repair
@strict
class AlbertPlusConfig(PreTrainedConfig):
    """An encoder with factorised embeddings and freely chosen cross-layer sharing.

    The defaults are ALBERT-base v2 (ALBERT, Table 1). Where the fields differ from BERT's:

    Args:
        embedding_size: E. Embeddings are normalised at E and projected to `hidden_size` only where the two differ, as
            in the 2019 code.
        attention_sharing: `"all"`, `"none"`, a number of groups, a list with the block of every layer, or a pattern:
            `"sequence:M"`, `"cycle:M"`, `"reversed_cycle:M"`. A block owns its norms, so sharing it shares them.
        ffn_sharing: the same for the feed-forward blocks.
        layer_rank: relaxed sharing (Bae et al. 2024, arXiv 2410.20672): every layer has norms and biases of its own, and of every product a
            difference of this rank from that of the block that it shares. None: a shared block is the same in all of its layers.
        type_vocab_size: 0 leaves token types out (DistilBERT, RoBERTa).
        pooling: what heads on whole sequences read: the `"first"` token, or the `"mean"` of the real ones (Sentence-BERT,
            section 3).
        pooler: activation of the dense layer on that, `"tanh"` or `"relu"` (DistilBERT's classifier), or `"none"`: it is
            read as it is.
        relative_attention_buckets: beside positions, a learned bias of each head on the distance of two tokens, which falls into one of
            so many buckets (T5, MPNet), or None. An attention block owns its biases.
        norm_type: `"layer_norm"`, or `"no_norm"`, a learned scale and shift (MobileBERT, section 3.3).
        block_attention_heads: heads that each attention block has left, of `num_attention_heads` whose size they keep, or None
            for all of them everywhere.
        block_intermediate_sizes: inner width of each feed-forward block's networks, or None for `intermediate_size` everywhere.
        num_feedforward_networks: feed-forward networks in a block, one after the other (MobileBERT, section 3.2).
        bottleneck_size: width inside the blocks, to which a linear layer leads from `hidden_size` and from which another leads back
            (MobileBERT, section 3.1), or None. Wider than `hidden_size` it is the inverted bottleneck of MobileBERT's teacher.
        query_key_bottleneck: with a bottleneck, whether queries and keys read a reduction of the hidden states (MobileBERT), or these
            themselves (its teacher).
        trigram_embeddings: read each token beside its neighbours, 3E wide, then project to `hidden_size`, where
            positions, token types and the norm follow (MobileBERT, section 3.1).
        letter_trigrams: two towers read words as sums of their letter trigrams (TwinBERT, section 3.1), which are hashed into the rows
            of the word embeddings, `vocab_size` of them, after those of the special tokens. Their tokenizer gives letters.
        twin_pooling: how two towers make a vector of a text: `"weighted_average"` of its tokens, the weights learned, or
            its `"first_token"` (TwinBERT, section 3.1).
        twin_crossing: how they score two vectors: logistic regression on their `"cosine"`, or on a `"residual"` layer
            over their maximum (TwinBERT, eq. 4-6).
        exit_layers: layers after which the sequence classifier has an exit, from 1, or None for no exits.
        exit_head: what an exit is: a `"branch"` with self-attention of its own (FastBERT), a linear classifier on what the
            model's pooler makes (`"pooled"`, PABEE), or `"shared"`: the model's own pooler and classifier at every depth.
        exit_size: width inside a branch.
        exit_criterion: what a row leaves by in engines with exits: `"entropy"` (FastBERT), `"confidence"` or `"patience"` (PABEE).
        exit_threshold: its threshold, which `albert-plus calibrate` finds, or None where none was found yet.
        exit_tolerance: of `"patience"` in regression: how far apart two numbers are the same, in their own unit. The default is PABEE's,
            for similarities from 0 to 5.
        initializer: what new weights are drawn from, with the deviation `initializer_range`: a `"truncated_normal"` distribution, cut at two
            deviations (TensorFlow's, which the 2019 code has), or a `"normal"` one (transformers' models).
        hidden_dropout_prob: after the embeddings, attention and, as in the 2019 code, feed-forward networks. With a
            bottleneck, after the expansion instead.

    Example:
        >>> AlbertPlusConfig(num_hidden_layers=6, attention_sharing="cycle:3", ffn_sharing=2).attention_map
        (0, 1, 2, 0, 1, 2)
    """

    model_type = "albert_plus"
    _auto_class = "AutoConfig"

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    attention_sharing: str | int | list[int] = "all"
    ffn_sharing: str | int | list[int] = "all"
    layer_rank: int | None = None
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    block_attention_heads: list[int] | None = None
    block_intermediate_sizes: list[int] | None = None
    num_feedforward_networks: int = 1
    bottleneck_size: int | None = None
    query_key_bottleneck: bool = True
    trigram_embeddings: bool = False
    relative_attention_buckets: int | None = None
    norm_type: str = "layer_norm"
    pooling: str = "first"
    pooler: str = "tanh"
    exit_layers: list[int] | None = None
    exit_head: str = "branch"
    exit_size: int = 128
    exit_criterion: str = "entropy"
    exit_threshold: float | int | None = None
    exit_tolerance: float | int = 0.1
    letter_trigrams: bool = False
    twin_pooling: str = "weighted_average"
    twin_crossing: str = "cosine"
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float | int = 0.0
    attention_probs_dropout_prob: float | int = 0.0
    classifier_dropout_prob: float | int = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer: str = "truncated_normal"
    initializer_range: float | int = 0.02
    layer_norm_eps: float | int = 1e-12
    pad_token_id: int | None = 0
    bos_token_id: int | None = 2
    eos_token_id: int | list[int] | None = 3
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        # Before anything is made of these sizes: the names of the labels, or the map of the layers.
        check_size("num_labels", kwargs.get("num_labels"))
        self.validate_sizes()
        super().__post_init__(**{**kwargs, "auto_map": {**_AUTO_MAP, **_our_names(kwargs.get("auto_map") or {})}})

    def validate_sizes(self):
        for name in ("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                     "intermediate_size", "num_feedforward_networks", "max_position_embeddings"):  # fmt: skip
            check_size(name, getattr(self, name))
        for name in ("initializer_range", "layer_norm_eps"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InvalidInput(
                    f"{name} must be at least 0", got=getattr(self, name), repair="leave it out for its default"
                )
        if not 0 <= self.type_vocab_size <= LARGEST["type_vocab_size"]:
            raise InvalidInput(
                f"type_vocab_size must be from 0 to {LARGEST['type_vocab_size']}",
                got=self.type_vocab_size,
                repair="use 0 for no token types",
            )
        check_size("bottleneck_size", self.bottleneck_size)
        check_size("layer_rank", self.layer_rank)
        check_size("relative_attention_buckets", self.relative_attention_buckets, least=4)
        width, name = (
            self.bottleneck_size or self.hidden_size,
            "bottleneck_size" if self.bottleneck_size else "hidden_size",
        )
        if width % self.num_attention_heads:
            divisors = [n for n in range(1, width + 1) if width % n == 0 and width // n >= min(width, 16)]
            raise InvalidInput(
                f"{name} ({width}) must be a multiple of num_attention_heads ({self.num_attention_heads})",
                got=f"a remainder of {width % self.num_attention_heads}",
                repair=f"use one of {divisors} heads",
            )
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise InvalidInput(
                f"pad_token_id ({self.pad_token_id}) must lie below vocab_size ({self.vocab_size})",
                got=self.pad_token_id,
                repair="use the tokenizer's pad_token_id and its len() as vocab_size",
            )

    def validate_dropout(self):
        for name in DROPOUTS:
            if not 0 <= getattr(self, name) < 1:
                raise InvalidInput(f"{name} must lie in [0, 1)", got=getattr(self, name), repair="use 0.1")

    def validate_choices(self):
        from transformers.activations import ACT2FN

        if self.hidden_act not in ACT2FN:
            raise InvalidInput(
                "hidden_act must be an activation that transformers knows",
                got=repr(self.hidden_act),
                repair="use 'gelu', 'gelu_new' or 'relu'",
            )
        choices = {
            "initializer": INITIALIZERS, "norm_type": NORM_TYPES, "pooling": POOLINGS, "pooler": POOLERS, "exit_head": EXIT_HEADS,
            "exit_criterion": EXIT_CRITERIA, "twin_pooling": TWIN_POOLINGS, "twin_crossing": TWIN_CROSSINGS,
        }  # fmt: skip
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise InvalidInput(
                    f"{name} must be one of {', '.join(known)}",
                    got=repr(getattr(self, name)),
                    repair=f"use {known[0]!r}",
                )

    def validate_letters(self):
        least = len(LETTER_SPECIALS) + 256
        if self.letter_trigrams and self.vocab_size < least:
            raise InvalidInput(
                f"vocab_size must be at least {least} with letter_trigrams, the ids of special tokens and letters",
                got=self.vocab_size,
                repair="use some 50000, the more the fewer trigrams share a row",
            )

    def validate_labels(self):
        check_labels(self)

    def validate_exits(self):
        layers = self.exit_layers or []
        if layers != sorted(set(layers)) or not all(1 <= layer < self.num_hidden_layers for layer in layers):
            raise InvalidInput(
                f"exit_layers must be rising layers from 1 to {self.num_hidden_layers - 1} (the last one has the classifier)",
                got=self.exit_layers,
                repair="use null for no exits",
            )
        if not 2 <= self.exit_size <= LARGEST["exit_size"] or self.exit_size % 2:
            raise InvalidInput(
                f"exit_size must be an even number from 2 to {LARGEST['exit_size']}",
                got=self.exit_size,
                repair="use 128",
            )
        if self.exit_threshold is not None and not 0 <= self.exit_threshold < math.inf:
            raise InvalidInput(
                "exit_threshold must be a number from 0",
                got=self.exit_threshold,
                repair="find one: albert-plus calibrate",
            )
        if not 0 < self.exit_tolerance < math.inf:
            raise InvalidInput(
                "exit_tolerance must be a number above 0",
                got=self.exit_tolerance,
                repair="use a fifteenth of the deviation of the numbers",
            )

    def validate_sharing(self):
        resolve_sharing(self.attention_sharing, num_hidden_layers=self.num_hidden_layers, name="attention_sharing")
        resolve_sharing(self.ffn_sharing, num_hidden_layers=self.num_hidden_layers, name="ffn_sharing")
        if self.layer_rank is not None and (self.bottleneck_size is not None or self.num_feedforward_networks > 1):
            raise InvalidInput(
                "layer_rank goes with neither bottleneck_size nor several num_feedforward_networks",
                got=f"bottleneck_size {self.bottleneck_size}, num_feedforward_networks {self.num_feedforward_networks}",
                repair="use null for one of them",
            )

    def validate_block_sizes(self):
        for name, blocks, most in (
            ("block_attention_heads", len(set(self.attention_map)), self.num_attention_heads),
            ("block_intermediate_sizes", len(set(self.ffn_map)), LARGEST["intermediate_size"]),
        ):
            sizes = getattr(self, name)
            if sizes is not None and len(sizes) != blocks:
                raise InvalidInput(
                    f"{name} must have a number for each of the {blocks} blocks",
                    got=f"{len(sizes)}: {sizes}",
                    repair="use null for blocks of one size",
                )
            if sizes is not None and not all(1 <= size <= most for size in sizes):
                bounds = (
                    f"from 1 to num_attention_heads ({most})"
                    if name == "block_attention_heads"
                    else f"from 1 to {most}"
                )
                raise InvalidInput(
                    f"{name} must hold numbers {bounds}", got=sizes, repair="use null for blocks of one size"
                )

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

    @property
    def attention_heads(self) -> tuple[int, ...]:
        """Heads of every attention block."""
        return tuple(self.block_attention_heads or [self.num_attention_heads] * (max(self.attention_map) + 1))

    @property
    def intermediate_sizes(self) -> tuple[int, ...]:
        """Inner width of every feed-forward block's networks."""
        return tuple(self.block_intermediate_sizes or [self.intermediate_size] * (max(self.ffn_map) + 1))
