"""Whether a model is fit to serve, as far as its directory tells before anything is started for it."""

from ..engines.artefacts import get_runtime
from ..engines.classifier_config import (
    answer_rule_of,
    check_gives_labels,
    check_label_names,
    classifier_length,
    long_texts_of,
)
from ..engines.runtime_files import check_hashes
from ..engines.sentence_files import sentence_length
from ..engines.text_encoder import check_encoder
from ..engines.text_model_kinds import config_of_texts
from ..engines.text_tokens import open_text_tokens
from ..heads import is_bare_encoder
from ..tasks.long_texts import CUT
from .repository import ServedModel


def check_directory(model: ServedModel, *, max_length: int | None) -> None:
    """Checks the config of a model, the texts that it is to take, the hashes of the files that its engine runs, and its tokenizer.

    Raises:
        InvalidInput: one of them is missing or unusable.
    """
    runtime = get_runtime(model.runtime)
    config = config_of_texts(model.directory, option="a model to serve")
    if is_bare_encoder(config):
        check_encoder(config, model.directory, runtime)
        longest, long = sentence_length(config, model.directory, max_length=max_length), CUT
    else:
        check_gives_labels(config, model.directory)
        check_label_names(config, model.directory)
        answer_rule_of(config)
        longest, long = (
            classifier_length(config, model.directory, max_length=max_length),
            long_texts_of(model.directory),
        )
    check_hashes(model.directory, runtime)
    open_text_tokens(model.directory, config, longest=longest, long=long)
