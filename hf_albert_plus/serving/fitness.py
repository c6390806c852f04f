"""Whether a model is fit to serve, as far as its directory tells before anything is started for it."""

from ..config_files import load_config
from ..engines.artefacts import get_runtime
from ..engines.classifier_config import answer_rule_of, check_label_names, length_taken
from ..engines.runtime_files import check_hashes
from .repository import ServedModel


def check_directory(model: ServedModel, *, max_length: int | None) -> None:
    """Checks the config of a model, the texts that it is to take, the hashes of the files that its engine runs, and its tokenizer.

    Raises:
        InvalidInput: one of them is missing or unusable.
    """
    config = load_config(model.directory, option="a model to serve")
    length_taken(config, model.directory, max_length=max_length)
    check_label_names(config, model.directory)
    answer_rule_of(config)
    check_hashes(model.directory, get_runtime(model.runtime))
    # transformers takes as long to import its tokenizers as all that is checked above.
    from ..tasks.rows import load_tokenizer

    load_tokenizer(model.directory, config)
