"""Quantisation that is trained for: simulated in fp32, stored in few bits."""

from .fake_quantisation import FakeQuantisation
from .packing import read_packed
from .rounding import Grid
from .scheme import SCHEME, Product, Scheme, read_scheme
from .settings import QatSettings
from .stage import qat

__all__ = [
    "SCHEME",
    "FakeQuantisation",
    "Grid",
    "Product",
    "QatSettings",
    "Scheme",
    "qat",
    "read_packed",
    "read_scheme",
]
