"""What a classifier says of texts that were read in windows: one answer for each text, made of those to its windows.

Everything that asks a classifier joins its answers here: scoring, calibration, every engine, the server and batch scoring.
"""

from collections.abc import Sequence
from typing import Any

import numpy

from .long_texts import Piece


def text_logits(logits_WC: Any, texts: Sequence[int], *, has_several: bool) -> numpy.ndarray:
    """The logits of texts, `[texts, C]`, in the order of their numbers.

    They are the mean over a text's windows: each window was taught the text's label, and is one vote. Where several labels may hold, each
    has its largest: a label holds of a text as soon as one window shows it, and a mean would hide it behind all the others.

    Args:
        logits_WC: of windows.
        texts: the number of each window's text, ascending.
    """
    logits_WC = numpy.asarray(logits_WC)
    _, firsts, counts = numpy.unique(numpy.asarray(texts), return_index=True, return_counts=True)
    if has_several:
        largest: numpy.ndarray = numpy.maximum.reduceat(logits_WC, firsts, axis=0)
        return largest
    sums = numpy.add.reduceat(logits_WC, firsts, axis=0)
    # A text with one window has that window's answer to the last digit.
    mean: numpy.ndarray = (sums / counts[:, None]).astype(logits_WC.dtype)
    return mean


def token_values(values: Sequence[Sequence[Any]], pieces: Sequence[Piece]) -> list[Any]:
    """One value for each token of a text, which is the one in the window where the token stands most central.

    Args:
        values: of each piece of the text, one for each of its tokens.
    """
    return [
        value
        for of_piece, piece in zip(values, pieces, strict=True)
        for value in of_piece[piece.answered.start : piece.answered.stop]
    ]


def texts_of_rows(pieces_of_texts: Sequence[Sequence[Piece]]) -> list[int]:
    """The number of each row's text, where each text has a row for each of its pieces."""
    return [number for number, pieces in enumerate(pieces_of_texts) for _ in pieces]
