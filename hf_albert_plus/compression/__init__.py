"""Compression: layers, heads, columns and pieces removed, weights set to zero, few bits trained for, exits calibrated."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .exits.stage import calibrate_exits as calibrate_exits
    from .pruning import prune as prune
    from .quantisation.stage import qat as qat
    from .settings import CalibrateSettings as CalibrateSettings
    from .settings import PruneSettings as PruneSettings
    from .settings import QatSettings as QatSettings
    from .settings import SparsifySettings as SparsifySettings
    from .sparsity import sparsify as sparsify
    from .trimming import trim as trim

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "exits.stage": ["calibrate_exits"],
        "pruning": ["prune"],
        "quantisation.stage": ["qat"],
        "settings": ["CalibrateSettings", "PruneSettings", "QatSettings", "SparsifySettings"],
        "sparsity": ["sparsify"],
        "trimming": ["trim"],
    },
)
