"""The tokenizer of a directory or Hub id: the one place where it is opened. Its code is never run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InvalidInput, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# The files that a tokenizer can be made of.
_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt",
    "spiece.model", "tokenizer.model", "sentencepiece.bpe.model",
)  # fmt: skip


def has_tokenizer(directory: Path) -> bool:
    """Whether a directory has any part of a tokenizer."""
    return any((directory / name).exists() for name in _FILES)


def open_tokenizer(source: str | Path, *, rule: str, repair: str) -> "PreTrainedTokenizerBase":
    """A tokenizer that cuts texts into words of its vocabulary, and pads them.

    Args:
        rule, repair: of the error where there is none.

    Raises:
        InvalidInput: there is none, or its files are broken.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
        ids = _ids_of_a_pair(tokenizer)
        vocabulary = tokenizer.get_vocab()
    except Exception as error:  # the tokenizers library raises Exception itself, whatever is wrong with a file
        raise InvalidInput(rule, got=f"{source} ({first_line(error)})", repair=repair) from error
    if len(vocabulary) <= len(set(tokenizer.all_special_ids)):
        # transformers 5 makes up an empty tokenizer where there are no files.
        raise InvalidInput(rule, got=f"{source} without a vocabulary", repair=repair)
    if not ids or None in ids:
        raise InvalidInput(rule, got=f"{source}, which finds no words in a text", repair=repair)
    if not isinstance(tokenizer.model_max_length, int | float):
        got = f"{source} with the model_max_length {tokenizer.model_max_length!r}"
        raise InvalidInput(rule, got=got, repair=repair)
    opened: PreTrainedTokenizerBase = tokenizer
    return opened


def _ids_of_a_pair(tokenizer: Any) -> list[int]:
    """Token ids of two texts. A tokenizer that is called keeps what it was told of truncation, and would be saved with it."""
    first, second = "a word", "Ж another one"
    ids: list[int] = (
        tokenizer.backend_tokenizer.encode(first, second).ids
        if tokenizer.is_fast
        else tokenizer(first, second)["input_ids"]
    )
    return ids


__all__ = ["has_tokenizer", "open_tokenizer"]
