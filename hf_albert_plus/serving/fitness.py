"""Whether a model is fit to serve, as far as its directory tells before anything is started for it."""

from typing import Any

from ..config_files import load_config
from ..engines.artefacts import get_runtime
from ..engines.classifier_config import labels_of, length_taken
from ..engines.runtime_files import check_hashes
from ..errors import InvalidInput
from .repository import ServedModel


def check_directory(model: ServedModel, *, max_length: int | None) -> None:
    """Checks the config of a model, the texts that it is to take, the hashes of the files that its engine runs, and its tokenizer.

    Raises:
        InvalidInput: one of them is missing or unusable.
    """
    config = load_config(model.directory, option="a model to serve")
    length_taken(config, model.directory, max_length=max_length)
    _check_labels(config, model)
    check_hashes(model.directory, get_runtime(model.runtime))
    # transformers takes as long to import its tokenizers as all that is checked above.
    from ..tasks.rows import load_tokenizer

    load_tokenizer(model.directory, config)


def _check_labels(config: Any, model: ServedModel) -> None:
    """Refuses two labels of one name, whose scores an answer could not tell apart.

    Raises:
        InvalidInput: there are such labels.
    """
    labels = labels_of(config)
    if len(set(labels)) != len(labels):
        raise InvalidInput(
            f"id2label in {model.directory / 'config.json'} must name every label, each by another name",
            got=config.id2label,
            repair="give each number from 0 a name",
        )
