"""The percentile interval of values that were drawn."""

import numpy

LEVEL = 95


def percentile_interval(values: numpy.ndarray) -> list[float] | None:
    """The middle `LEVEL` percent of drawn values; None where a draw left one undefined."""
    if not numpy.isfinite(values).all():
        return None
    return [round(float(bound), 3) for bound in numpy.percentile(values, [50 - LEVEL / 2, 50 + LEVEL / 2])]
