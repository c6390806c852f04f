"""The kinds of models of texts: which one a directory holds, and how it is opened."""

from pathlib import Path
from typing import Any

from ..errors import need
from ..heads import is_bare_encoder
from .plain_config import read_plain_config
from .text_classifier import TextClassifier
from .text_encoder import TextEncoder
from .text_model import TextModel


def config_of_texts(directory: Path, *, option: str) -> Any:
    """The config of a model directory, read by transformers only where it says something that takes it.

    Args:
        option: what the directory was given as, for the error.

    Raises:
        InvalidInput: there is none, or transformers does not know it.
    """
    plain = read_plain_config(directory)
    if plain is not None:
        return plain
    # Importing transformers takes seconds, and not everybody has it who serves.
    need("torch", extra="cpu")
    from ..config_files import load_config

    return load_config(directory, option=option)


def open_text_model(
    directory: str | Path, runtime: str, *, cores: int, max_length: int | None, verify: bool = True
) -> TextModel:
    """The model of a directory, of the kind that its config says: an encoder, or a classifier of texts or of their words.

    Raises:
        InvalidInput: as the model of that kind.
    """
    config = config_of_texts(Path(directory), option="the model")
    kind = TextEncoder if is_bare_encoder(config) else TextClassifier
    return kind(directory, runtime, cores=cores, max_length=max_length, verify=verify)
