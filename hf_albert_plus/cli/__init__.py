"""The command line `albert-plus`."""

from . import interrupts as interrupts  # Ctrl-C may come while the others open

# isort: split
from .app import main

__all__ = ["main"]
