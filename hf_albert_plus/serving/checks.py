"""What can be said of a model before anything is started for it: it takes a second, and names the file that is wrong."""

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
    config = load_config(model.directory, option="a model to serve")
    length_taken(config, model.directory, max_length=max_length)
    _check_labels(config, model)
    load_tokenizer(model.directory, config)
    check_hashes(model.directory, get_runtime(model.runtime))


def _check_labels(config: Any, model: Served) -> None:
    """
    Raises:
        InvalidInput: two labels of one name, whose scores an answer could not tell apart.
    """
    labels = labels_of(config)
    if len(set(labels)) != len(labels):
        raise InvalidInput(
            f"id2label in {model.directory / 'config.json'} must name every label, each by another name",
            got=config.id2label,
            repair="give each number from 0 a name",
        )


__all__ = ["check_directory"]
