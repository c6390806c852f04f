"""How the library sentence-transformers makes the vector of a text of an encoder's hidden states: `modules.json`, read and written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config_files import optional_file
from ..errors import InvalidInput
from ..model_inputs import longest_input
from ..records.files import read_json, write_json
from .sentence_encoders import trained_pooling
from .settings import Pooling, SentencePooling

_FILE = "modules.json"
_READ = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])


@dataclass(frozen=True)
class SentenceModules:
    """What makes a vector of hidden states.

    Attributes:
        pooling: the mean of the tokens, or the first one.
        normalize: whether it is divided by its length.
    """

    pooling: SentencePooling
    normalize: bool

    @property
    def read_by(self) -> Pooling:
        """The pooling in the words of an ALBERT-plus config."""
        return "mean" if self.pooling == "mean" else "first"


def read_modules(source: str | Path, *, option: str) -> SentenceModules | None:
    """What makes the vectors of a sentence encoder, as the `modules.json` of its directory or Hub id says; None where there is none.

    Raises:
        InvalidInput: modules that are not read here, such as a dense layer behind the pooling, or another pooling.
    """
    path = optional_file(source, _FILE)
    if path is None:
        return None
    repair = "save the sentence encoder again"
    modules = read_json(path, what=_FILE, shape=list[dict[str, Any]], repair=repair)
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
    pooling = trained_pooling(source)
    if kinds not in _READ or pooling is None:
        raise InvalidInput(
            f"the vectors of {option} must be the mean of the tokens or the first one, normalised or not",
            got=f"{', '.join(kinds)} in {source}" + (" with another pooling" if kinds in _READ else ""),
            repair="use a sentence encoder without further modules",
        )
    return SentenceModules("mean" if pooling == "mean" else "cls", normalize="Normalize" in kinds)


def write_modules(directory: Path, config: Any, modules: SentenceModules) -> None:
    """Writes `modules.json` and the folders that it names, so that `SentenceTransformer(directory)` reads texts alike. The names are
    the library's old ones, which its release 6 reads as well."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if modules.normalize else [])]
    rows: list[dict[str, Any]] = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    write_json(directory / _FILE, rows)
    write_json(
        directory / "sentence_bert_config.json", {"max_seq_length": longest_input(config), "do_lower_case": False}
    )
    for row in rows[1:]:
        (directory / row["path"]).mkdir(exist_ok=True)
    write_json(
        directory / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": config.hidden_size,
            "pooling_mode_cls_token": modules.pooling == "cls",
            "pooling_mode_mean_tokens": modules.pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
