"""Conversions that keep the function: checkpoints of transformers' architectures <-> ALBERT-plus models."""

from .compare import max_difference
from .families import CONVERTIBLE, FAMILIES
from .heads import HEADS, head_of
from .models import converted_config, from_albert_plus, to_albert_plus
from .stage import convert, open_as_trained

__all__ = [
    "CONVERTIBLE",
    "FAMILIES",
    "HEADS",
    "convert",
    "converted_config",
    "from_albert_plus",
    "head_of",
    "max_difference",
    "open_as_trained",
    "to_albert_plus",
]
