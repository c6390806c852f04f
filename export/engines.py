"""One interface, several runtimes: an engine takes the model's named tensors and returns the model's output object."""

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PreTrainedConfig
from transformers.utils import ModelOutput

from hf_albert_plus.compression.quantisation.scheme import SCHEME
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.export.inputs import check_tensors
from hf_albert_plus.export.runtimes import Runtime, get_runtime
from hf_albert_plus.files import file_sha256
from hf_albert_plus.heads import architecture_of
from hf_albert_plus.processes import MOST_THREADS
from hf_albert_plus.records import RECORD, open_record


class Engine(ABC):
    """A loaded model of any head, on one runtime. `transformers.pipeline(task, model=engine, tokenizer=...)` takes it.

    Attributes:
        config: the model's config.
        inputs: names of the tensors it reads; others are passed over.
        directory: the model directory.
        file: the file with its weights or graph.
        runtime: what it runs on.
    """

    config: PreTrainedConfig
    inputs: tuple[str, ...]
    directory: Path
    file: Path
    runtime: Runtime
    # What a pipeline asks of a model.
    device = torch.device("cpu")
    base_model_prefix = "model"
    main_input_name = "input_ids"
    input_modalities = ("text",)

    @abstractmethod
    def run(self, tensors: dict[str, torch.Tensor]) -> ModelOutput:
        """Checked int64 tensors, only those of `inputs` -> the output object, in fp32 on the CPU."""

    def __call__(self, **tensors: torch.Tensor) -> ModelOutput:
        """Named int64 tensors `[batch, sequence]` (`[batch, choices, sequence]` for multiple choice) -> the output object
        of transformers' models with that head, in fp32.

        Raises:
            InvalidInput: a tensor is missing, of another type or shape, too long, or has ids out of range.
        """
        check_tensors(tensors, self.inputs, self.config)
        return self.run({name: tensors[name].long() for name in self.inputs})

    def forward(self, **tensors: torch.Tensor) -> ModelOutput:
        """As `__call__`."""
        return self(**tensors)

    def to(self, device: Any) -> "Engine":
        """An engine stays where it was loaded.

        Raises:
            InvalidInput: another device than its own.
        """
        if torch.device(device).type != self.device.type:
            raise InvalidInput(
                f"this engine takes its tensors on the {self.device}",
                got=f"device {device}",
                repair=f"pass device={str(self.device)!r} to the pipeline; providers=… chooses what it computes on",
            )
        return self

    def can_generate(self) -> bool:
        return False

    @property
    def name_or_path(self) -> str:
        return str(self.file)

    @staticmethod
    def load(
        directory: str | Path,
        runtime: str = "torch",
        *,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
        verify: bool = True,
    ) -> "Engine":
        """Opens a model directory on a runtime.

        Args:
            threads: threads of one inference; the number of physical cores by default.
            providers: onnxruntime's execution providers in order of preference, `["CPUExecutionProvider"]` by default;
                OpenVINO's device names for OpenVINO, `["CPU"]` by default.
            verify: compare the files with the hashes in the directory's record.json, where it has one.

        Raises:
            InvalidInput: no such runtime, its library or file is missing, or the file is broken or not this model's.
        """
        directory = Path(directory)
        engine_file(directory, runtime)
        chosen = get_runtime(runtime)
        if threads is not None and not 1 <= threads <= MOST_THREADS:
            raise InvalidInput(
                f"threads must be from 1 to {MOST_THREADS}", got=threads, repair="leave it out for all physical cores"
            )
        if verify:
            check_hashes(directory, chosen)
        module, _, name = chosen.engine.partition(":")
        opener = getattr(importlib.import_module(f"hf_albert_plus.export.{module}"), name)
        engine: Any = opener(directory, chosen, threads=threads or physical_cores(), providers=providers)
        # Pipelines complain of a model whose class has a name that they do not know.
        engine.__class__ = type(
            architecture_of(engine.config), (type(engine),), {"__module__": type(engine).__module__}
        )
        return cast(Engine, engine)


def engine_file(directory: str | Path, runtime: str) -> Path:
    """The file that a runtime runs in a model directory, there and readable.

    Raises:
        InvalidInput: no such runtime, directory or file.
    """
    chosen = get_runtime(runtime)
    if not Path(directory).is_dir():
        raise InvalidInput("a target must be a model directory", got=str(directory), repair="check the path")
    path = Path(directory) / chosen.file
    if not path.is_file():
        repair = f"make it: {chosen.command(directory)}"
        raise InvalidInput(f"the target {directory}:{runtime} needs {path}", got="no such file", repair=repair)
    return path


def weight_files(path: Path) -> list[Path]:
    """A runtime's file and those that belong to it: OpenVINO keeps its weights beside the graph."""
    return [path, path.with_suffix(".bin")] if path.suffix == ".xml" else [path]


def check_hashes(directory: Path, runtime: Runtime) -> None:
    """Compares what a runtime runs with the hashes in the directory's record.json, where it has one.

    Raises:
        InvalidInput: other content, or none.
    """
    if not (directory / RECORD).is_file():
        return
    recorded = open_record(directory).files
    others = [directory / SCHEME] if runtime.name == "torch-qat" else []
    for path in (*weight_files(directory / runtime.file), *others):
        name = path.relative_to(directory).as_posix()
        if name in recorded and (not path.is_file() or file_sha256(path) != recorded[name]["sha256"]):
            raise InvalidInput(
                f"{path} must be the file that {directory / RECORD} describes",
                got="other content" if path.is_file() else "no such file",
                repair="export it again, or load with verify=False if you changed it on purpose",
            )


def physical_cores() -> int:
    """Physical cores this process may run on, and no more than its container may use of them."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or 1, allowed, container_cores()))


def container_cores(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Whole cores of a container's quota (version 2 of Linux's control groups), as many as there are without one.

    Args:
        cpu_max: microseconds of processor time in a period, or `max`, and the period.
    """
    quota, _, period = cpu_max.read_text().partition(" ") if cpu_max.is_file() else ("max", "", "")
    return (os.cpu_count() or 1) if quota == "max" else max(1, int(quota) // int(period))


def model_hash(directory: str | Path, runtime: str) -> str:
    """SHA-256 of the file that a target runs: what joins its scores with its timings."""
    path = engine_file(directory, runtime)
    return file_sha256(weight_files(path)[-1])


__all__ = ["Engine", "check_hashes", "container_cores", "engine_file", "model_hash", "physical_cores", "weight_files"]
