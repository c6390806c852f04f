"""The command line `albert-plus`."""

from .app import main

__all__ = ["main"]
