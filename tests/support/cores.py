"""The cores that the tests may use."""

import os

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
