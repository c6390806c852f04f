"""The document of the benches that run one model in several ways: peers, passes, self-check, cuda."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from hf_albert_plus.eval.measured_documents import IF_KNOWN, Cell, Environment


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """One way to run a model, and its timings."""

    label: str
    loads: dict[str, Cell]


@dataclass(frozen=True, kw_only=True)
class PeerRow(ComparedRow):
    """A way of the field's to run a model.

    Attributes:
        cosine: of its first output to the baseline's.
    """

    file_bytes: int | None
    quantised_products: int | None
    weight_products: int | None
    cosine: float | None


@dataclass(frozen=True, kw_only=True)
class PassesRow(ComparedRow):
    """A graph, and how often each pass was applied to it."""

    passes: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Ways to run one model, timed in turns.

    Attributes:
        source: the model directory or variant.
        model: class of the peers' baseline.
        not_built: peer -> the reason.
        times_as_long_beside_another: shape -> how many times as long the baseline's calls take beside a process that takes a core.
    """

    kind: Literal["peers", "passes", "self-check", "cuda"]
    source: str | None = field(default=None, metadata=IF_KNOWN)
    model: str | None = field(default=None, metadata=IF_KNOWN)
    baseline: str
    loads: list[str]
    rows: Sequence[ComparedRow]
    not_built: dict[str, str] | None = field(default=None, metadata=IF_KNOWN)
    times_as_long_beside_another: dict[str, float] | None = field(default=None, metadata=IF_KNOWN)
    gpu: str | None = field(default=None, metadata=IF_KNOWN)
    peak_device_mb: float | None = field(default=None, metadata=IF_KNOWN)
    environment: Environment
