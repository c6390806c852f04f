"""Quantisation that is trained for: simulated in fp32, stored in few bits."""

from .rounding import Grid
from .scheme import SCHEME, Product, Scheme, read_scheme
from .settings import QatSettings
from .simulation import Simulation
from .stage import qat

__all__ = ["SCHEME", "Grid", "Product", "QatSettings", "Scheme", "Simulation", "qat", "read_scheme"]
