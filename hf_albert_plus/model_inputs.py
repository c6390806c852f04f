"""The inputs of a model: their names, their axes and the longest that it takes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InvalidInput
from .heads import architecture_of

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

# The label of tokens that no loss counts.
IGNORED = -100
NAMES = ("input_ids", "attention_mask", "token_type_ids")
# Architectures that count positions from past the padding token, as RoBERTa does.
_OFFSET = {"camembert", "data2vec-text", "ibert", "longformer", "luke", "mpnet", "xmod"}


def position_offset(config: "PreTrainedConfig") -> int:
    """Rows of the position table below that of the first token."""
    has_offset = "roberta" in config.model_type or config.model_type in _OFFSET
    return int(config.pad_token_id or 0) + 1 if has_offset else 0


def longest_input(config: "PreTrainedConfig") -> int:
    """Tokens in the longest sequence a model takes: the one rule of positions."""
    positions = int(getattr(config, "max_position_embeddings", None) or 512)
    return positions - position_offset(config)


def length_taken(config: Any, directory: str | Path, *, max_length: int | None) -> int:
    """Tokens of a text that a model takes, all of its positions unless told otherwise.

    Raises:
        InvalidInput: it has fewer positions.
    """
    longest = longest_input(config)
    if max_length is not None and not 1 <= max_length <= longest:
        raise InvalidInput(
            f"--max-length must be from 1 to the {longest} positions of {directory}",
            got=max_length,
            repair=f"use --max-length {longest}",
        )
    return max_length or longest


def input_rank(config: "PreTrainedConfig") -> int:
    """Axes of a model's inputs: batch and sequence, and choices between them for multiple choice."""
    return 3 if architecture_of(config).endswith("ForMultipleChoice") else 2


def reads_token_types(config: "PreTrainedConfig") -> bool:
    """Whether a model tells the two sentences of a pair apart by `token_type_ids`."""
    return (getattr(config, "type_vocab_size", 0) or 0) > 1


def axis_names(model: "PreTrainedModel") -> tuple[str, ...]:
    """The axes of the model's inputs, all dynamic."""
    has_choices = type(model).__name__.endswith("ForMultipleChoice")
    return ("batch", "choices", "sequence") if has_choices else ("batch", "sequence")


def input_names(config: "PreTrainedConfig") -> list[str]:
    """The names of the tensors that a model reads."""
    return [name for name in NAMES if name != "token_type_ids" or reads_token_types(config)]
