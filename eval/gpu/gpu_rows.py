"""The rows of the table: one way to do one thing, its timings, and what else was found out; or why it was not measured."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hf_albert_plus.config_building import variant_config
from hf_albert_plus.errors import first_line
from hf_albert_plus.eval.gpu.sizes import Sizes
from hf_albert_plus.eval.latency.device_calls import Device
from hf_albert_plus.eval.latency.timed_models import open_source
from hf_albert_plus.eval.measured_documents import IF_KNOWN, Cell
from hf_albert_plus.modeling_albert_plus import AlbertPlusForSequenceClassification


@dataclass(frozen=True, kw_only=True)
class GpuRow:
    """One way to do one thing.

    Attributes:
        runtime: of a model that answers, as targets name it.
        load: what is done: a shape of sequences x tokens, or the layout of a batch.
        unit: what is counted by the second.
        cell: its timings; None where only values were compared.
        of_roof: its useful operations a second as a share of the roof of its precision.
        peak_device_mb: the most memory that a call takes of a GPU at once, beyond what was held before it; None on a CPU.
        facts: what else was found out.
        not_measured: why there is no more.
    """

    label: str
    load: str
    unit: str = ""
    runtime: str | None = field(default=None, metadata=IF_KNOWN)
    cell: Cell | None = field(default=None, metadata=IF_KNOWN)
    of_roof: float | None = field(default=None, metadata=IF_KNOWN)
    peak_device_mb: float | None = field(default=None, metadata=IF_KNOWN)
    facts: dict[str, Any] = field(default_factory=dict)
    not_measured: str | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True)
class Bench:
    """What a part is measured with.

    Attributes:
        model: a model directory or a variant, which answers.
        roofs: precision -> operations a second of the largest product, in 1e9.
    """

    device: Device
    sizes: Sizes
    model: str
    roofs: Mapping[str, float]

    def classifier(self) -> Any:
        """The model that answers, on the device in fp32: the one of its directory, or the variant's with random weights."""
        if Path(self.model).is_dir():
            opened: Any = open_source(self.model)
            return opened.to(self.device.kind)
        return self.random_classifier(self.model)

    def random_classifier(self, variant: str, **fields: Any) -> Any:
        """A variant's classifier with random weights, on the device in fp32."""
        torch.manual_seed(0)
        config = variant_config(variant, overrides={**self.sizes.fields, **fields})
        model: Any = AlbertPlusForSequenceClassification(config).eval()
        config.architectures = [type(model).__name__]  # as a directory says it, from which engines are opened
        return model.to(self.device.kind)

    def share_of_roof(self, *, operations: float, ms: float, precision: str) -> float | None:
        """Operations in milliseconds as a share of the roof; None where the roof was not measured."""
        roof = self.roofs.get(precision)
        return None if roof is None else round(operations / ms / 1e6 / roof, 4)


class Attempts:
    """Ways that are tried one by one: what a machine lacks becomes a row that says so, and the others go on.

    Attributes:
        rows: those that were not measured.
    """

    def __init__(self) -> None:
        self.rows: list[GpuRow] = []

    @contextmanager
    def attempt(self, label: str, load: str) -> Iterator[None]:
        """Work on one way."""
        try:
            yield
        except Exception as error:  # drivers, compilers and runtimes fail in classes of their own; the table says how
            self.skip(label, load, why_of(error))

    def skip(self, label: str, load: str, why: str) -> None:
        """Says why a way is not measured."""
        self.rows.append(GpuRow(label=label, load=load, not_measured=why))

    def first_calls(self, ways: Mapping[str, Callable[[], object]], load: str) -> dict[str, Callable[[], object]]:
        """The ways whose first call works: compilers and kernels fail there."""
        working = {}
        for label, call in ways.items():
            with self.attempt(label, load):
                call()
                working[label] = call
        return working


def why_of(error: Exception) -> str:
    """An error in a line of the table."""
    return f"{type(error).__name__}: {first_line(error)}"
