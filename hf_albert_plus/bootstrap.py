"""The percentile interval of values that were drawn."""

import numpy

LEVEL = 95
# Points that two sums of the same scores may differ by.
ROUNDING = 1e-9


def percentile_interval(values: numpy.ndarray, *, decimals: int | None = 3) -> list[float] | None:
    """The middle `LEVEL` percent of drawn values; None where a draw left one undefined.

    Args:
        decimals: that the bounds have; all of them where None.
    """
    if not numpy.isfinite(values).all():
        return None
    low, high = (float(bound) for bound in numpy.percentile(values, [50 - LEVEL / 2, 50 + LEVEL / 2]))
    return [low, high] if decimals is None else [round(low, decimals), round(high, decimals)]
