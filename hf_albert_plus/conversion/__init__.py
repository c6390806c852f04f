"""Conversions that keep the function: checkpoints of transformers' architectures <-> ALBERT-plus models."""

from ..heads import HEADS, head_of
from .compare import max_difference
from .families import CONVERTIBLE, FAMILIES
from .models import converted_config, from_albert_plus, to_albert_plus
from .stage import convert

__all__ = [
    "CONVERTIBLE",
    "FAMILIES",
    "HEADS",
    "convert",
    "converted_config",
    "from_albert_plus",
    "head_of",
    "max_difference",
    "to_albert_plus",
]
