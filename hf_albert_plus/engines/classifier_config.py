"""What the config of a classifier of texts says: its labels, the kind of its answers, and the longest text that it takes."""

from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig

from ..errors import InvalidInput
from ..heads import architecture_of, is_classifier
from ..model_inputs import longest_input

# More than any tokenizer makes one token of; what is beyond is refused or cut before it costs a tokenizer's time.
_CHARACTERS_A_TOKEN = 64


def labels_of(config: Any) -> tuple[str, ...]:
    """The names of a classifier's labels, in the order of its logits."""
    return tuple(str(config.id2label[number]) for number in range(config.num_labels))


def problem_type_of(config: Any) -> str:
    """A classifier's problem type: the config's own where it names one, else what transformers takes it for."""
    if config.problem_type is not None:
        return str(config.problem_type)
    return "regression" if config.num_labels == 1 else "single_label_classification"


def length_taken(config: PreTrainedConfig, directory: str | Path, *, max_length: int | None) -> int:
    """Tokens of a text that a classifier takes, all of its positions unless told otherwise.

    Raises:
        InvalidInput: no classifier, or one with fewer positions.
    """
    if not is_classifier(config):
        raise InvalidInput(
            "texts are classified by sequence classifiers",
            got=f"{architecture_of(config)} in {directory}",
            repair="fine-tune one: albert-plus finetune",
        )
    longest = longest_input(config)
    if max_length is not None and max_length > longest:
        raise InvalidInput(
            f"--max-length must not exceed the {longest} positions of {directory}",
            got=max_length,
            repair=f"use --max-length {longest}",
        )
    return max_length or longest


def characters_read(max_length: int) -> int:
    """Characters of a text that could matter to so many tokens."""
    return _CHARACTERS_A_TOKEN * max_length
