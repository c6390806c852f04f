"""Text to token ids: the one place where sentences, pairs and token types are put together."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from .tasks import Task

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase


def reads_token_types(config: "PreTrainedConfig") -> bool:
    """Whether a model tells the two sentences of a pair apart by `token_type_ids`."""
    return (getattr(config, "type_vocab_size", 0) or 0) > 1


def load_tokenizer(source: str | Path, config: "PreTrainedConfig") -> "PreTrainedTokenizerBase":
    """The tokenizer of a model, made to give token types where the model reads them, and only there.

    transformers 5's own AlbertTokenizer does not name `token_type_ids` among its inputs, which silently puts both
    sentences of a pair into segment 0.

    Raises:
        InvalidInput: the directory has no tokenizer, or one with more tokens than the model.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            "a model directory must hold its tokenizer",
            got=f"{source} ({str(error).strip().splitlines()[0]})",
            repair="save the tokenizer into it",
        ) from None
    if len(tokenizer) > config.vocab_size:
        raise InvalidInput(
            f"the tokenizer must have at most vocab_size ({config.vocab_size}) tokens",
            got=f"{len(tokenizer)} in {source}",
            repair="use the tokenizer that the model was trained with",
        )
    if len(tokenizer.get_vocab()) <= len(set(tokenizer.all_special_ids)):
        # transformers 5 makes up an empty tokenizer where there are no files.
        raise InvalidInput(
            "a model directory must hold its tokenizer",
            got=f"{source} without a vocabulary",
            repair="save the tokenizer into it",
        )
    names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
    names = [*names, "token_type_ids"] if reads_token_types(config) else names
    tokenizer.model_input_names = names
    # Classes that have names of their own save only what they were made with.
    tokenizer.init_kwargs["model_input_names"] = names
    return tokenizer


def encode(rows: "Dataset", task: Task, tokenizer: "PreTrainedTokenizerBase", *, max_length: int) -> "Dataset":
    """Rows of text -> rows of token ids with `labels` and, for batching by length, `length`. Padding is the batch's
    business."""

    def tokenise(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        encoded = dict(tokenizer(*(batch[column] for column in task.columns), truncation=True, max_length=max_length))
        encoded["labels"] = [float(label) for label in batch["label"]] if task.is_regression else batch["label"]
        encoded["length"] = [len(ids) for ids in encoded["input_ids"]]
        return encoded

    encoded = rows.map(
        tokenise, batched=True, remove_columns=rows.column_names, desc=f"tokenise {task.name}", keep_in_memory=True
    )
    if task.is_regression:
        return encoded
    from datasets import Value

    return encoded.cast_column("labels", Value("int64"))


__all__ = ["encode", "load_tokenizer", "reads_token_types"]
