"""Whether a model is fit to serve, as far as its directory tells before anything is started for it."""

from typing import Any

from ..engines.artefacts import get_runtime
from ..engines.classifier_config import answer_rule_of, check_label_names, length_taken, long_texts_of
from ..engines.plain_config import read_plain_config
from ..engines.runtime_files import check_hashes
from ..engines.text_tokens import open_text_tokens
from ..errors import need
from .repository import ServedModel


def check_directory(model: ServedModel, *, max_length: int | None) -> None:
    """Checks the config of a model, the texts that it is to take, the hashes of the files that its engine runs, and its tokenizer.

    Raises:
        InvalidInput: one of them is missing or unusable.
    """
    config: Any = read_plain_config(model.directory)
    if config is None:
        # Importing transformers takes seconds, and not everybody has it who serves.
        need("torch", extra="cpu")
        from ..config_files import load_config

        config = load_config(model.directory, option="a model to serve")
    longest = length_taken(config, model.directory, max_length=max_length)
    check_label_names(config, model.directory)
    answer_rule_of(config)
    check_hashes(model.directory, get_runtime(model.runtime))
    open_text_tokens(model.directory, config, longest=longest, long=long_texts_of(model.directory))
