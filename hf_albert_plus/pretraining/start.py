"""Pretraining that goes on from a model."""

from typing import Any

from ..config_files import load_config
from ..configuration_albert_plus import AlbertPlusConfig
from ..errors import InvalidInput
from ..heads import architecture_of
from ..modeling_albert_plus import AlbertPlusForPreTraining
from ..tasks.rows import load_tokenizer
from ..weight_files import from_pretrained

_GOES_ON = ("AlbertPlusForPreTraining", "AlbertPlusForMaskedLM", "AlbertPlusModel")


def pretrained(source: str, tokenizer: Any) -> AlbertPlusForPreTraining:
    """A pretrained model that reads the words of a corpus.

    Args:
        tokenizer: of the corpus.

    Raises:
        InvalidInput: another architecture, or other words than the corpus's.
    """
    architecture = check_start(source, tokenizer)
    model, report = from_pretrained(AlbertPlusForPreTraining, source, option="--model")
    # What an architecture does not have begins at random.
    at_random = ("pooler.", "sentence_order.", *(["predictions."] if architecture == "AlbertPlusModel" else []))
    missing = [key for key in report["missing_keys"] if not any(part in key for part in at_random)]
    wrong = sorted([*report["unexpected_keys"], *missing])
    if wrong:
        raise InvalidInput(
            "--model must hold the weights of a pretrained model and no others",
            got=f"{len(wrong)} missing or unread ({wrong[0]} …) in {source}",
            repair="check that config and weights belong together",
        )
    opened: AlbertPlusForPreTraining = model
    return opened


def check_start(source: str, tokenizer: Any) -> str:
    """Refuses a model that cannot go on learning the words of a corpus.

    Returns:
        Its architecture.

    Raises:
        InvalidInput: see `pretrained`.
    """
    config = load_config(source, option="--model")
    architecture = architecture_of(config)
    if not isinstance(config, AlbertPlusConfig) or architecture not in _GOES_ON:
        raise InvalidInput(
            "--model must be a pretrained ALBERT-plus encoder, with a head for words or without one",
            got=f"a {architecture} in {source}",
            repair="take what it was fine-tuned from; albert-plus convert MODEL --out DIR makes one of another family's encoder",
        )
    if load_tokenizer(source, config).get_vocab() != tokenizer.get_vocab():
        raise InvalidInput(
            "--model must have the vocabulary of the corpus",
            got=f"another one in {source}",
            repair=f"build the corpus with it: albert-plus corpus build --tokenizer {source} --corpus … --out …",
        )
    return architecture
