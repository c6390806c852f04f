"""One interface, several runtimes: an engine takes the model's named tensors and returns the model's output object."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers import PreTrainedConfig
from transformers.utils import ModelOutput

from ..config_files import optional_file
from ..errors import InvalidInput, first_line, suggest
from ..heads import architecture_of, head_of
from ..machine import physical_cores
from ..model_inputs import input_rank
from ..model_outputs import logits_of
from ..records.processes import MOST_THREADS
from ..records.record import RECORD
from .artefacts import ARTEFACTS, RUNTIMES, Runtime, get_runtime
from .runtime_files import check_hashes, engine_file, weight_files
from .tensors import check_tensors


class Engine(ABC):
    """A loaded model of any head, on one runtime. `transformers.pipeline(task, model=engine, tokenizer=...)` takes it.

    Attributes:
        config: the model's config.
        inputs: names of the tensors it reads; others are passed over.
        outputs: names of what it gives, where that is known before it computes: of a graph, and of an encoder whose files say what its
            texts are read by.
        directory: the model directory.
        file: the file with its weights or graph.
        runtime: what it runs on.
    """

    config: PreTrainedConfig
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
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

    def output(self, name: str, arrays: Mapping[str, numpy.ndarray]) -> numpy.ndarray:
        """One output of the model in fp32, such as `logits`, which `logits_of` gives, from int64 arrays.

        Raises:
            InvalidInput: as `__call__`.
        """
        output = self(**{name: torch.from_numpy(array) for name, array in arrays.items()})
        found: numpy.ndarray = (logits_of(output) if name == "logits" else output[name]).numpy()
        return found

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
        opener = getattr(importlib.import_module(chosen.engine.module), chosen.engine.name)
        engine: Engine = opener(directory, chosen, threads=threads or physical_cores(), providers=providers)
        _call_as_model(engine)
        return engine

    @staticmethod
    def from_pretrained(
        source: str | Path,
        *,
        file_name: str | None = None,
        threads: int | None = None,
        providers: Sequence[str] | None = None,
    ) -> "Engine":
        """Opens a graph by its file name, as optimum's `ORTModelFor…` and `OVModelFor…` classes do.

        Args:
            source: a model directory, or a Hub id, of which only what the graph needs is fetched.
            file_name: of the graph, with its folder or without: `model_int8.onnx`; `onnx/model.onnx` by default.
            threads, providers: as `load` has them.

        Raises:
            InvalidInput: as `load`; or no file that an export makes.
        """
        chosen = _runtime_of_file(file_name or str(ARTEFACTS["onnx"].file))
        if not Path(source).is_dir():
            needed = weight_files(Path(chosen.file))
            found = [optional_file(source, name) for name in ("config.json", RECORD, *map(Path.as_posix, needed))]
            if found[0] is None:
                raise InvalidInput(
                    "a graph must lie in a model directory or on the Hub", got=str(source), repair="check the name"
                )
            source = found[0].parent
        return Engine.load(source, chosen.name, threads=threads, providers=providers)


def _runtime_of_file(file_name: str) -> Runtime:
    """The runtime of an export by the name of its file.

    Raises:
        InvalidInput: no such export.
    """
    exports = [runtime for runtime in RUNTIMES.values() if runtime.artefact is not None]
    for runtime in exports:
        if file_name in (runtime.file, Path(runtime.file).name):
            return runtime
    names = list(dict.fromkeys(Path(runtime.file).name for runtime in exports))
    raise InvalidInput(
        "file_name must be one that an export has", got=repr(file_name), repair=suggest(file_name, names)
    )


def _call_as_model(engine: Engine) -> None:
    """Gives an engine a class of its own that is called as its model's. transformers' pipelines look for the name of a model's class among
    those that they know, and complain of others; an engine has no other place for that name."""
    kind = type(engine)
    engine.__class__ = type(architecture_of(engine.config), (kind,), {"__module__": kind.__module__})


def check_answer(engine: "Engine") -> None:
    """Refuses a graph that is another model's by what it answers to one short text of the last token.

    Raises:
        InvalidInput: it does not run on what this model reads, or gives outputs of other sizes.
    """
    config, shape = engine.config, (1,) * (input_rank(engine.config) - 1) + (2,)
    last = {"input_ids": config.vocab_size - 1, "attention_mask": 1}
    tensors = {name: torch.full(shape, last.get(name, 0)) for name in engine.inputs}
    repair = "export the directory again"
    rule = f"{engine.file} must be an export of this directory's {architecture_of(config)}"
    try:
        answer = engine.run(tensors)
    except Exception as error:  # a class of its own for each failure of each runtime, none of them public
        raise InvalidInput(rule, got=f"a graph that does not run ({first_line(error)})", repair=repair) from error
    for name, width in _widths(config).items():
        if name in answer and answer[name].shape[-1] != width:
            got = f"{answer[name].shape[-1]} values in {name} where config.json has {width}"
            raise InvalidInput(rule, got=got, repair=repair)


def _widths(config: PreTrainedConfig) -> dict[str, int]:
    """How many values a model gives in the last axis of its outputs, for those of one size."""
    of_logits = {
        "ForMaskedLM": config.vocab_size,
        "ForSequenceClassification": config.num_labels,
        "ForTokenClassification": config.num_labels,
    }
    head = head_of(architecture_of(config), option="the target")
    known = {
        "last_hidden_state": config.hidden_size,
        "sentence_embedding": config.hidden_size,
        "prediction_logits": config.vocab_size,
    }
    return {**known, "logits": of_logits[head]} if head in of_logits else known
