"""Dual training: a teacher that learns the student's small vocabulary while the student learns from it (Zhao et al.)."""

from .collator import DualCollator
from .distiller import DualDistiller
from .dual_teacher import DualTeacher
from .parameter_pairs import ParameterPairs, layer_matrices, parameter_pairs
from .segmentation import Pieces, Vocabulary, cut_words, draw_words, mask_words, mix_words
from .terms import DualBatch, MixedWords, SharedProjections
from .vocabularies import check_own_vocabulary
from .word_rows import word_rows

__all__ = [
    "DualBatch",
    "DualCollator",
    "DualDistiller",
    "DualTeacher",
    "MixedWords",
    "ParameterPairs",
    "Pieces",
    "SharedProjections",
    "Vocabulary",
    "check_own_vocabulary",
    "cut_words",
    "draw_words",
    "layer_matrices",
    "mask_words",
    "mix_words",
    "parameter_pairs",
    "word_rows",
]
