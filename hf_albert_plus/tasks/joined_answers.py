"""What a classifier says of texts that were read in windows: one answer for each text, made of those to its windows.

Everything that asks a classifier joins its answers here: scoring, calibration, every engine, the server and batch scoring.
W windows, C labels.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy

from .windows import Answering


def text_numbers(rows: Sequence[Answering]) -> list[int]:
    """The number of each row's text."""
    return [number for number, _, _ in rows]


def rows_of_texts(numbers: Iterable[int]) -> list[list[int]]:
    """The rows of each text, by the number of each row's text."""
    rows: dict[int, list[int]] = {}
    for row, number in enumerate(numbers):
        rows.setdefault(number, []).append(row)
    return list(rows.values())


def text_logits(logits_WC: Any, texts: Sequence[int], *, has_several: bool) -> numpy.ndarray:
    """The logits of texts, `[texts, C]`, in the order of their numbers.

    They are the mean over a text's windows: each window was taught the text's label, and is one vote. Where several labels may hold, each
    has its largest: a label holds of a text as soon as one window shows it, and a mean would hide it behind all the others.

    Args:
        logits_WC: of windows, in any order.
        texts: the number of each window's text.
    """
    order = numpy.argsort(texts, kind="stable")
    logits_WC = numpy.asarray(logits_WC)[order]
    _, firsts, counts = numpy.unique(numpy.asarray(texts)[order], return_index=True, return_counts=True)
    if has_several:
        largest: numpy.ndarray = numpy.maximum.reduceat(logits_WC, firsts, axis=0)
        return largest
    mean: numpy.ndarray = (numpy.add.reduceat(logits_WC, firsts, axis=0) / counts[:, None]).astype(logits_WC.dtype)
    return mean


def token_values(values: Sequence[Any], rows: Sequence[Answering]) -> list[list[Any]]:
    """For each text one value for each of its tokens: the one in the window where the token stands most central.

    Args:
        values: of each row, one for each of its tokens.
    """
    answered = [(number, list(of_row[start:stop])) for of_row, (number, start, stop) in zip(values, rows, strict=True)]
    return [
        [value for _, of_row in of_text for value in of_row] for _, of_text in groupby(answered, lambda each: each[0])
    ]


def windows_a_text(numbers: Sequence[int]) -> tuple[float, int]:
    """How many rows the texts have, by the number of each row's text: in the mean, and the most."""
    counts = numpy.unique(numbers, return_counts=True)[1]
    return round(float(counts.mean()), 3), int(counts.max())
