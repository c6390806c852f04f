"""Compression: heads and columns removed, weights set to zero."""

from .pruning import prune
from .settings import PruneSettings, SparsifySettings
from .sparsity import sparsify

__all__ = ["PruneSettings", "SparsifySettings", "prune", "sparsify"]
