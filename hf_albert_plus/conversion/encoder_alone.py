"""The encoder of a model without its head, which another task can start from: RoBERTa begins three tasks of GLUE so (Liu et al. 2019, section 5.1)."""

from typing import Any

from transformers import PreTrainedConfig, PreTrainedModel

from ..checkpoints import open_as_trained
from ..config_files import load_config
from ..errors import InvalidInput
from ..heads import is_bare_encoder

# What a config says of a head, and what it says without one.
_OF_A_HEAD = {"problem_type": None, "exit_layers": None, "exit_threshold": None}


def encoder_alone(source: str) -> PreTrainedModel:
    """The encoder of a checkpoint of any architecture, its config without the labels, the kind of problem and the exits of its head.

    Args:
        source: directory or Hub id of a model with a head.

    Raises:
        InvalidInput: no head to leave out, or weights that are missing or left over.
    """
    if is_bare_encoder(load_config(source, option="SOURCE")):
        raise InvalidInput(
            "--to encoder is for a model with a head",
            got=f"{source}, which has none",
            repair="start from it as it is",
        )
    model: Any = open_as_trained(source, option="SOURCE")
    encoder: PreTrainedModel = model.base_model
    config: Any = encoder.config
    plain: Any = PreTrainedConfig()
    config.id2label, config.label2id = plain.id2label, plain.label2id
    for name, value in _OF_A_HEAD.items():
        if hasattr(config, name):
            setattr(config, name, value)
    return encoder
