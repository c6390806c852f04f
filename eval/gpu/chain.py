"""The chain of parts: each is measured once and kept, whatever is missing is named, and the documents of all of them are written."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hf_albert_plus.engines.runtime_files import model_hash
from hf_albert_plus.errors import AlbertPlusError, InvalidInput
from hf_albert_plus.eval.gpu.gpu_documents import latency_document, table_of, table_text
from hf_albert_plus.eval.gpu.gpu_rows import Bench, GpuRow, why_of
from hf_albert_plus.eval.gpu.inference import BASELINE, name_of
from hf_albert_plus.eval.gpu.parts import PARTS, Part
from hf_albert_plus.eval.gpu.sizes import FULL, SMALL, Sizes
from hf_albert_plus.eval.latency.device_calls import Device, DeviceKind, open_device
from hf_albert_plus.eval.latency.timing import timed_by
from hf_albert_plus.eval.measured_documents import to_json
from hf_albert_plus.machine import FORMAT, environment
from hf_albert_plus.records.files import read_json, write_json, write_text
from hf_albert_plus.records.outputs import OutputLock, check_directory, take_directory
from hf_albert_plus.records.progress import say
from hf_albert_plus.variants import VARIANTS

# Once so many minutes are over, no further part begins.
MINUTES = 10.0


class BackendsDiffer(AlbertPlusError):
    """A backend of attention computes something else than the others."""


@dataclass(frozen=True)
class Chain:
    """What is measured where, and for how long.

    Attributes:
        model: a model directory or a variant, which answers.
        minutes: no part begins that would probably end later.
    """

    device: Device
    sizes: Sizes
    model: str
    minutes: float

    def plan(self) -> list[tuple[Part, str | None]]:
        """The parts, and why one is not measured here."""
        return [(part, part.lacks(is_gpu=self.device.is_gpu)) for part in PARTS]

    def described(self, output: Path) -> Iterator[str]:
        """What is about to be done, a line each: where, with what, and the parts."""
        versions = environment()["versions"]
        libraries = f"torch {versions['torch']}, transformers {versions['transformers']}"
        yield f"{self.device.name}, {libraries}: {name_of(self.model)}, {self.sizes.name} sizes; no network, files in {output}"
        if self.sizes is SMALL:
            yield "small sizes show that the chain works; their figures say nothing of the device"
        for part, lacking in self.plan():
            takes = f"about {part.seconds} s on an H200" if self.sizes is FULL else "seconds"
            yield f"  {part.name} ({takes if lacking is None else f'not measured: {lacking}'}): {part.does}"


def open_chain(device: DeviceKind, *, small: bool, model: str | None = None, minutes: float = MINUTES) -> Chain:
    """A chain for a device, once it can begin.

    Raises:
        InvalidInput: no such device or model, or minutes that are none.
    """
    sizes = SMALL if small else FULL
    chosen = model or sizes.model
    if not 0 < minutes <= 24 * 60:
        raise InvalidInput("--minutes must be greater than 0 and at most 1,440", got=minutes, repair="use --minutes 10")
    if not Path(chosen).is_dir() and chosen not in VARIANTS:
        raise InvalidInput(
            "--model must be a model directory or the name of a variant",
            got=repr(chosen),
            repair="see albert-plus variants",
        )
    return Chain(open_device(device), sizes, chosen, minutes)


def run_chain(chain: Chain, output: Path) -> dict[str, Any]:
    """Measures what is not kept in `output`, and writes `gpu.json`, `gpu.md` and, once models have answered, `latency.json`.

    Returns:
        What `gpu.json` holds.

    Raises:
        BackendsDiffer: a backend of attention is too far from the others; everything is written before.
    """
    check_directory(output)
    with OutputLock(output):
        take_directory(output)
        with timed_by(chain.sizes.method):
            parts = _measured_parts(chain, output)
        rows = [{"part": part, **row} for part, measured in parts.items() for row in measured]
        content = {
            "kind": "gpu",
            "format": FORMAT,
            "device": chain.device.name,
            "sizes": chain.sizes.name,
            "model": name_of(chain.model),
            "rows": rows,
            "environment": environment(),
        }
        write_json(output / "gpu.json", content)
        write_text(output / "gpu.md", table_text(*table_of(rows)))
        latency = latency_document(
            rows,
            device=chain.device.name,
            name=name_of(chain.model),
            directory=chain.model,
            model_sha256=model_identity(chain.model),
            baseline=BASELINE,
        )
        if latency is not None:
            write_json(output / "latency.json", latency)
    differing = [f"{row['label']} {row['load']}" for row in rows if row["facts"].get("agrees") is False]
    if differing:
        raise BackendsDiffer(f"attention must be the same in every backend, got others from {', '.join(differing)}")
    return content


def _measured_parts(chain: Chain, output: Path) -> dict[str, list[dict[str, Any]]]:
    """Part -> its rows as JSON."""
    begun, parts, roofs = time.monotonic(), dict[str, list[dict[str, Any]]](), dict[str, float]()
    for part, lacking in chain.plan():
        identity = _identity(chain, part, lacking)
        kept = _kept(output / f"{part.name}.json", identity)
        left = 60 * chain.minutes - (time.monotonic() - begun)
        if kept is not None:
            rows = kept
        elif lacking is not None:
            rows = _nothing(part, lacking)
        elif chain.sizes is FULL and left < part.seconds:
            rows = _nothing(part, f"{chain.minutes:g} minutes were nearly over: run the same command again to go on")
        else:
            say(f"{part.name}: {part.does}")
            rows = _measure(part, Bench(chain.device, chain.sizes, chain.model, roofs), output, identity)
        parts[part.name] = rows
        roofs |= {row["facts"]["precision"]: row["facts"]["gops_per_s"] for row in rows if "precision" in row["facts"]}
    return parts


def _measure(part: Part, bench: Bench, output: Path, identity: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a part, kept once they are whole; of one that fails a row that says how, and the next run tries again."""
    start = time.monotonic()
    try:
        rows: list[dict[str, Any]] = to_json(part.measure(bench))
    except Exception as error:  # drivers, compilers and runtimes fail in classes of their own; the table says how
        return _nothing(part, why_of(error))
    document = {"identity": identity, "rows": rows, "seconds": round(time.monotonic() - start, 1)}
    write_json(output / f"{part.name}.json", document)
    return rows


def _nothing(part: Part, why: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = to_json([GpuRow(label=part.name, load="", not_measured=why)])
    return rows


def _identity(chain: Chain, part: Part, lacking: str | None) -> dict[str, Any]:
    """What must be the same before rows of an earlier run stand in the table."""
    versions = environment()["versions"]
    return {
        "format": FORMAT,
        "part": part.name,
        "lacking": lacking,
        "device": chain.device.name,
        "sizes": chain.sizes.name,
        "model": model_identity(chain.model),
        "versions": {name: versions[name] for name in ("hf-albert-plus", "torch", "transformers")},
    }


def model_identity(model: str) -> str:
    """The hash of a directory's weights; of a variant, whose weights are the same random ones, that of its name and fields."""
    if Path(model).is_dir():
        return model_hash(model, "torch")
    return hashlib.sha256(json.dumps([model, VARIANTS[model].fields], sort_keys=True).encode()).hexdigest()


def _kept(path: Path, identity: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The rows of an earlier run; None where there are none, or they are of something else."""
    if not path.exists():
        return None
    try:
        document = read_json(path, what="a part that was kept")
        same = document["identity"] == identity
        rows: list[dict[str, Any]] = [{"facts": row["facts"], **row} for row in document["rows"]]
    except (InvalidInput, KeyError, TypeError) as damage:
        say(f"{path.name} is measured again: it is damaged ({damage})")
        return None
    if not same:
        say(f"{path.name} is measured again: it is of another device, model, size or version")
    return rows if same else None
