"""More training data: copies of the rows with words replaced by likely ones (TinyBERT)."""

from .stage import AugmentSettings, augment
from .word_replacement import find_candidates, replace_in_row, replace_words

__all__ = ["AugmentSettings", "augment", "find_candidates", "replace_in_row", "replace_words"]
