"""Matryoshka prefixes (Kusupati et al., 2022): the first numbers of a vector that are a vector of the text as well.

A model that was trained for them names their widths as `matryoshka_dims` in its config.json. B texts, H numbers of a vector.
"""

from itertools import pairwise
from typing import Any

import numpy

from ..errors import InvalidInput

# What a shorter vector, such as one of zeros, is divided by.
LEAST_LENGTH = 1e-12


def prefixes_of(config: Any) -> tuple[int, ...]:
    """The widths below the whole vector's at which a model's vectors may be cut; none of a model that was not trained for any.

    Raises:
        InvalidInput: `matryoshka_dims` is no list of widths in rising order, up to the model's own.
    """
    given, whole = getattr(config, "matryoshka_dims", None), int(config.hidden_size)
    if given is None:
        return ()
    are_widths = isinstance(given, list | tuple) and all(type(width) is int and 1 <= width <= whole for width in given)
    if not are_widths or any(one >= next_one for one, next_one in pairwise(given)):
        raise InvalidInput(
            f"matryoshka_dims of config.json must be whole numbers from 1 to hidden_size ({whole}) in rising order",
            got=given,
            repair="write them so, or remove them where the model was not trained for prefixes",
        )
    return tuple(width for width in given if width < whole)


def cut_vectors(vectors_BH: numpy.ndarray, *, width: int, is_normalized: bool) -> numpy.ndarray:
    """The first numbers of vectors, brought to length 1 again where the whole ones have it, `[B, width]`."""
    if width == vectors_BH.shape[1]:
        return vectors_BH
    cut = numpy.ascontiguousarray(vectors_BH[:, :width])
    return unit_vectors(cut) if is_normalized else cut


def unit_vectors(vectors_BH: numpy.ndarray) -> numpy.ndarray:
    """Vectors divided by their lengths."""
    lengths = numpy.linalg.norm(vectors_BH, axis=1, keepdims=True)
    unit: numpy.ndarray = vectors_BH / numpy.maximum(lengths, LEAST_LENGTH)
    return unit
