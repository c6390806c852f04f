"""Distilling encoders and classifiers into ALBERT-plus students: losses, methods composed of them, and the stage."""

from .distill import DEFAULT, DistilSettings, check_distillation, distill
from .layer_maps import LAYER_MAPS, layer_map
from .methods import METHODS, Layers, Method, get_method
from .phases import Phase
from .students import HALF, StudentSettings, student_architecture

__all__ = [
    "DEFAULT",
    "HALF",
    "LAYER_MAPS",
    "METHODS",
    "DistilSettings",
    "Layers",
    "Method",
    "Phase",
    "StudentSettings",
    "check_distillation",
    "distill",
    "get_method",
    "layer_map",
    "student_architecture",
]
