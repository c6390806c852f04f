"""Vectors of texts in an export: which models may have them, and the files by which the library sentence-transformers pools alike."""

from pathlib import Path
from typing import Any

from hf_albert_plus.config_files import load_config
from hf_albert_plus.engines.sentence_files import LENGTHS, sentence_length
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.heads import architecture_of, is_bare_encoder
from hf_albert_plus.records.files import write_json


def check_pooling(settings: ExportSettings, source: Path) -> None:
    """Refuses vectors of a model that is no bare encoder, and a length for vectors that nobody asked for.

    Raises:
        InvalidInput: one of these.
    """
    if settings.pooling is None:
        if settings.normalize:
            raise InvalidInput(
                "--normalize is for the vectors of --pooling", got="no --pooling", repair="add --pooling mean"
            )
        return
    config = load_config(source, option="DIR")
    if not is_bare_encoder(config):
        raise InvalidInput(
            "--pooling makes vectors of a bare encoder",
            got=f"{architecture_of(config)} in {source}",
            repair="leave it out, or save its encoder alone first: AutoModel.from_pretrained(DIR).save_pretrained(OUT)",
        )


def write_modules(directory: Path, config: Any, settings: ExportSettings) -> None:
    """Writes `modules.json` and the folders that it names, so that `SentenceTransformer(directory)` reads texts as the graphs do. The names are
    the library's old ones, which its release 6 reads as well."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if settings.normalize else [])]
    modules: list[dict[str, Any]] = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    write_json(directory / "modules.json", modules)
    longest = sentence_length(config, directory, max_length=None)
    write_json(directory / LENGTHS, {"max_seq_length": longest, "do_lower_case": False})
    for module in modules[1:]:
        (directory / module["path"]).mkdir()
    write_json(
        directory / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": config.hidden_size,
            "pooling_mode_cls_token": settings.pooling == "cls",
            "pooling_mode_mean_tokens": settings.pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
