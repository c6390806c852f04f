"""How long an architecture will take: a sum over its layers, heads and columns, fitted to what was measured on this machine."""

from dataclasses import dataclass

import numpy
from scipy.optimize import nnls

from .shapes import Work


@dataclass(frozen=True)
class Pace:
    """One measurement: milliseconds that a text takes in an encoder with so much work."""

    work: Work
    ms: float


@dataclass(frozen=True)
class PredictedTime:
    """Milliseconds a text: `fixed + layer · layers + head · heads + column · columns`, no term below zero."""

    fixed: float
    layer: float
    head: float
    column: float

    @classmethod
    def fitted(cls, paces: list[Pace]) -> "PredictedTime":
        """The least squares of the relative errors (Lawson and Hanson's, with no coefficient below zero)."""
        table = numpy.array([[1, pace.work.layers, pace.work.heads, pace.work.columns] for pace in paces], dtype=float)
        ms = numpy.array([pace.ms for pace in paces])
        coefficients, _ = nnls(table / ms[:, None], numpy.ones(len(paces)))
        return cls(*map(float, coefficients))

    def of(self, work: Work) -> float:
        return self.fixed + self.layer * work.layers + self.head * work.heads + self.column * work.columns
