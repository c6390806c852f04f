"""The encoder of a model without its head, which another task can start from: RoBERTa begins three tasks of GLUE so (Liu et al. 2019, section 5.1)."""

from typing import Any

from transformers import PreTrainedModel

from ..checkpoints import open_as_trained
from ..config_files import load_config
from ..errors import InvalidInput
from ..heads import is_bare_encoder

# What a config says of a head. Thresholds and tolerances are in the unit of its task.
_OF_A_HEAD = (
    "id2label",
    "label2id",
    "problem_type",
    "exit_layers",
    "exit_criterion",
    "exit_threshold",
    "exit_tolerance",
)


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
    plain = type(config)()
    for name in _OF_A_HEAD:
        if hasattr(config, name):
            setattr(config, name, getattr(plain, name))
    return encoder
