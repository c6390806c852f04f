"""What a config costs, without making its weights: parameters, operations and bytes."""

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from .configuration_albert_plus import AlbertPlusConfig
from .errors import InvalidInput
from .modeling_albert_plus import AlbertPlusModel


@dataclass(frozen=True)
class Size:
    """Size of the bare encoder with its pooler.

    Attributes:
        parameters: unique ones, a shared block counted once.
        flops: floating point operations of the matrix products for one sequence; a multiplication and an addition are
            two. Sharing does not lower them.
        file_bytes: of the weights in `model.safetensors` in fp32, up to its header of a few kB.
    """

    parameters: int
    flops: int
    file_bytes: int


def measure(config: AlbertPlusConfig, *, length: int = 128) -> Size:
    """Counts by running the model on torch's meta device, where tensors have shapes and no content."""
    if length < 1:
        raise InvalidInput("--length must be at least 1", got=length, repair="use --length 128")
    length = min(length, config.max_position_embeddings)
    with torch.device("meta"):
        model = AlbertPlusModel._from_config(config, attn_implementation="eager").eval()
        ids = torch.zeros(1, length, dtype=torch.long)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(ids)
    parameters = model.num_parameters()
    return Size(parameters=parameters, flops=counter.get_total_flops(), file_bytes=4 * parameters)


__all__ = ["Size", "measure"]
