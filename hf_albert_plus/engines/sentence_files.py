"""What the files of a sentence encoder say of its vectors: what a text is read by, how long it may be, and whether a vector has length 1.

The library sentence-transformers writes them, and `albert-plus export --pooling` does. Nothing here needs torch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..conversion.settings import Pooling
from ..model_inputs import length_taken, longest_input
from ..records.files import read_json

POOLING, MODULES, LENGTHS = "1_Pooling/config.json", "modules.json", "sentence_bert_config.json"
# The library's words for it, those of old files first.
_WORDS: dict[str, Pooling] = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "cls": "first",
    "mean": "mean",
}
_KNOWN = {"Transformer", "Pooling", "Normalize"}


@dataclass(frozen=True)
class SentenceForm:
    """How hidden states become the vector of a text.

    Attributes:
        normalize: whether it is divided by its length.
    """

    pooling: Pooling
    normalize: bool


def read_form(directory: Path) -> SentenceForm | None:
    """How a model directory's vectors are made; None where its files say nothing of it, or of something else than pooling and length 1.

    Raises:
        InvalidInput: one of the files cannot be read.
    """
    if not (directory / POOLING).is_file():
        return None
    pooling = pooling_of(directory / POOLING)
    kinds = _kinds_of_modules(directory / MODULES)
    return None if pooling is None or not kinds <= _KNOWN else SentenceForm(pooling, "Normalize" in kinds)


def sentence_length(config: Any, directory: Path, *, max_length: int | None) -> int:
    """Tokens of a text that an encoder takes, unless told otherwise: as many as the library reads, where its file says so, else all of the
    model's positions.

    Raises:
        InvalidInput: the model has fewer positions than `max_length`, or the file cannot be read.
    """
    if max_length is None and (directory / LENGTHS).is_file():
        content = read_json(
            directory / LENGTHS, what=LENGTHS, shape=dict[str, Any], repair="save the sentence encoder again"
        )
        said = content.get("max_seq_length")
        if type(said) is int and said >= 1:
            return min(said, longest_input(config))
    return length_taken(config, directory, max_length=max_length)


def pooling_of(path: Path) -> Pooling | None:
    """What texts are read by, as a pooling's config.json says; None where it is neither the mean nor the first token alone.

    Raises:
        InvalidInput: the file cannot be read.
    """
    content: dict[str, Any] = read_json(
        path, what=POOLING, shape=dict[str, Any], repair="save the sentence encoder again, or remove the folder"
    )
    mode = content.get("pooling_mode")
    named = [mode] if isinstance(mode, str) else mode if isinstance(mode, list) else []
    modes = named or [name for name, value in content.items() if name.startswith("pooling_mode_") and value is True]
    return _WORDS.get(str(modes[0])) if len(modes) == 1 else None


def _kinds_of_modules(path: Path) -> set[str]:
    """The names of the classes in modules.json, none where there is no such file."""
    if not path.is_file():
        return set()
    modules: list[dict[str, Any]] = read_json(
        path, what=MODULES, shape=list[dict[str, Any]], repair="save the sentence encoder again"
    )
    return {str(module.get("type")).rpartition(".")[2] for module in modules}
