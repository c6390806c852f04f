"""Vectors of texts in an export: which models may have them."""

from pathlib import Path

from hf_albert_plus.config_files import load_config
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.settings import ExportSettings
from hf_albert_plus.heads import architecture_of, is_bare_encoder


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
