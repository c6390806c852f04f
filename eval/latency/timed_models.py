"""The models that are timed in several ways: those of directories, and variants with random weights."""

from pathlib import Path

import torch
from transformers import PreTrainedModel

from hf_albert_plus.errors import InvalidInput


def open_source(source: str) -> PreTrainedModel:
    """The model of a directory, or a classifier with random weights of a named variant.

    Raises:
        InvalidInput: it is neither.
    """
    from hf_albert_plus.checkpoints import open_as_trained
    from hf_albert_plus.config_building import variant_config
    from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification
    from hf_albert_plus.variants import VARIANTS

    if Path(source).is_dir():
        return open_as_trained(source, option="the model")
    if source not in VARIANTS:
        raise InvalidInput(
            "what is timed must be a model directory or the name of a variant",
            got=repr(source),
            repair="see albert-plus variants",
        )
    torch.manual_seed(0)
    return AlbertPlusForSequenceClassification(variant_config(source)).eval()


def in_transformers(model: PreTrainedModel) -> PreTrainedModel:
    """The model in transformers' own architecture, where there is one that computes it; itself where there is none."""
    from hf_albert_plus.conversion.models import from_albert_plus

    if model.config.model_type != "albert_plus":
        return model
    for family in ("albert", "bert"):
        try:
            return from_albert_plus(model, to=family).eval()
        except InvalidInput:
            continue
    return model
