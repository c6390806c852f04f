"""What a classifier's probabilities are worth, and one temperature that makes them worth more."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from .stage import calibrate_scores as calibrate_scores

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"stage": ["calibrate_scores"]})
