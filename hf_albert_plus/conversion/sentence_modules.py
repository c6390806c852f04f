"""The files of a sentence encoder: read of a directory or of the Hub, and written for a directory of ours."""

from pathlib import Path
from typing import Any

from ..config_files import optional_file
from ..engines.sentence_files import LENGTHS, MODULES, POOLING, SentenceForm, read_form, sentence_length
from ..errors import InvalidInput
from ..records.files import write_json
from .settings import SentencePooling


def form_of(pooling: SentencePooling, normalize: bool) -> SentenceForm:
    """How vectors are made, from the words that the library sentence-transformers has for it."""
    return SentenceForm("mean" if pooling == "mean" else "first", normalize)


def read_modules(source: str | Path, *, option: str) -> SentenceForm | None:
    """How the vectors of a sentence encoder are made, as the files of its directory or Hub id say; None where it has no `modules.json`.

    Raises:
        InvalidInput: they are made in another way, such as by a dense layer behind the pooling.
    """
    modules, _ = (optional_file(source, name) for name in (MODULES, POOLING))
    if modules is None:
        return None
    form = read_form(modules.parent)
    if form is None:
        raise InvalidInput(
            f"the vectors of {option} must be the mean of the tokens or the first one, normalised or not",
            got=f"other modules in {source}",
            repair="use a sentence encoder without further modules",
        )
    return form


def write_modules(directory: Path, config: Any, form: SentenceForm) -> None:
    """Writes `modules.json` and the folders that it names, so that `SentenceTransformer(directory)` reads texts alike. The names are
    the library's old ones, which its release 6 reads as well."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if form.normalize else [])]
    modules: list[dict[str, Any]] = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    write_json(directory / MODULES, modules)
    longest = sentence_length(config, directory, max_length=None)
    write_json(directory / LENGTHS, {"max_seq_length": longest, "do_lower_case": False})
    for module in modules[1:]:
        (directory / module["path"]).mkdir(exist_ok=True)
    write_json(
        directory / POOLING,
        {
            "word_embedding_dimension": config.hidden_size,
            "pooling_mode_cls_token": form.pooling == "first",
            "pooling_mode_mean_tokens": form.pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
