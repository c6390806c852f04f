"""What can be said of a model before anything is started for it: it takes a second, and names the file that is wrong."""

import json
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.engines import check_hashes
from hf_albert_plus.export.runtimes import get_runtime

from ..checkpoints import load_config
from ..glue import load_tokenizer
from .repository import Served
from .text_model import labels_of, length_taken


def check_directory(model: Served, *, max_length: int | None) -> None:
    """The files of a model's engine and their hashes, its config, its tokenizer, and the texts that it is to take.

    Raises:
        InvalidInput: one of them is missing or unusable.
    """
    model.check_files()
    _check_json(model)
    try:
        config = load_config(model.directory, option="a model to serve")
        length_taken(config, model.directory, max_length=max_length)
        _check_labels(config, model)
        load_tokenizer(model.directory, config)
    except InvalidInput:
        raise
    except Exception as error:  # transformers and tokenizers raise whatever a broken file makes them
        raise InvalidInput(
            f"config and tokenizer of {model.directory} must open",
            got=(str(error).strip() or type(error).__name__).splitlines()[0],
            repair="save the model again with save_pretrained",
        ) from error
    check_hashes(model.directory, get_runtime(model.runtime))


def _check_json(model: Served) -> None:
    """transformers lets what is wrong in these pass, or fails with an error of its own."""
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        path = model.directory / name
        if not path.exists() and name != "config.json":
            continue
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InvalidInput(
                f"{path} must be a readable JSON file",
                got=str(error) or type(error).__name__,
                repair="save the model again",
            ) from None
        if not isinstance(content, dict):
            raise InvalidInput(
                f"{path} must hold a JSON object", got=type(content).__name__, repair="save the model again"
            )


def _check_labels(config: Any, model: Served) -> None:
    try:
        labels = labels_of(config)
    except (KeyError, TypeError):
        labels = ()
    if not labels or len(set(labels)) != len(labels):
        raise InvalidInput(
            f"id2label in {model.directory / 'config.json'} must name every label, each by another name",
            got=config.id2label,
            repair="give each number from 0 a name",
        )


__all__ = ["check_directory"]
