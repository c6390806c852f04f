"""Distilling encoders and classifiers into ALBERT-plus students: losses, methods composed of them, and the stage."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from . import losses as losses
    from .methods import METHODS as METHODS
    from .settings import DistilSettings as DistilSettings
    from .settings import StudentSettings as StudentSettings
    from .stage import distill as distill

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["losses"],
    submod_attrs={
        "methods": ["METHODS"],
        "settings": ["DistilSettings", "StudentSettings"],
        "stage": ["distill"],
    },
)
