"""Scores, latency and the table that sets them side by side."""

from typing import TYPE_CHECKING

import lazy_loader

if __name__ != "hf_albert_plus.eval":
    raise ImportError("import this package as hf_albert_plus.eval, from an installed hf-albert-plus")

if TYPE_CHECKING:
    from .latency.bench import bench as bench
    from .reporting.stage import report as report
    from .scoring import score as score
    from .scoring import scorer_for as scorer_for
    from .settings import BenchSettings as BenchSettings
    from .settings import EvalSettings as EvalSettings

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "latency.bench": ["bench"],
        "reporting.stage": ["report"],
        "scoring": ["score", "scorer_for"],
        "settings": ["BenchSettings", "EvalSettings"],
    },
)
