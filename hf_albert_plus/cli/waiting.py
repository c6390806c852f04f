"""How OpenMP's threads wait for each other: they spin for some microseconds and then sleep, where they would spin for milliseconds and keep a
core from whoever else has work."""

import os

# Of GNU's libgomp, which torch brings on Linux. It counts turns, and reads this once, when torch opens.
_TURNS = "2000"


def wait_briefly() -> None:
    """Sets that for torch and for processes that start from here, where nobody set anything."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _TURNS)
