"""Compression: heads and columns removed, weights set to zero, few bits trained for."""

from .pruning import prune
from .quantisation import QatSettings, qat
from .settings import PruneSettings, SparsifySettings
from .sparsity import sparsify

__all__ = ["PruneSettings", "QatSettings", "SparsifySettings", "prune", "qat", "sparsify"]
