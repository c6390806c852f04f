"""Batch scoring on Ray Data: files of texts in, a row of labels and scores for each of their rows out."""

from .distribution import Place
from .settings import ScoreSettings
from .stage import score

__all__ = ["Place", "ScoreSettings", "score"]
