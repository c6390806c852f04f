"""onnxruntime: its sessions, the engine of fp32, half precision and int8 graphs, and the engine of graphs with exits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import ModelOutput

from ..config_files import load_config
from ..errors import InvalidInput, suggest
from .artefacts import Runtime
from .engine import Engine, check_answer
from .tensors import as_output, check_names, output_class
from .unsigned_weights import exact

CPU = ("CPUExecutionProvider",)
# The input of a graph with exits that decides which rows leave, and that a caller may give another value.
THRESHOLD = "threshold"

# How long a thread waits awake for the others and for the next call. onnxruntime's own 50 ms keep a core from whoever else has work, and make no
# call faster.
_SPIN_US = "1000"


def open_session(graph: Path | bytes, *, threads: int | None = None, providers: Sequence[str] = CPU) -> Any:
    """A session on a file or on a graph's bytes, whose int8 products are exact on any x86 CPU.

    Args:
        threads: threads of one inference, onnxruntime's own default where left out.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # A pattern of memory is kept for each shape that was seen, and saves nothing measurable.
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN_US)
    if threads is not None:
        options.intra_op_num_threads = threads
    if tuple(providers) == CPU:
        graph = exact(graph)
    return onnxruntime.InferenceSession(
        graph if isinstance(graph, bytes) else str(graph), sess_options=options, providers=list(providers)
    )


class OnnxEngine(Engine):
    """An onnxruntime session with its default options but for the number of threads, how long they wait awake, and patterns of memory, which grow with
    every new shape."""

    # Inputs and outputs of a graph that are none of the model's.
    settings: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def __init__(self, directory: Path, runtime: Runtime, *, threads: int, providers: Sequence[str] | None):
        import onnxruntime

        self.runtime, self.directory, self.file = runtime, directory, directory / runtime.file
        wanted = list(providers or CPU)
        available = onnxruntime.get_available_providers()
        unknown = [name for name in wanted if name not in available]
        if unknown:
            raise InvalidInput(
                "providers must be ones that this onnxruntime has",
                got=unknown[0],
                repair=f"{suggest(unknown[0], available)}; for a GPU: pip install 'hf-albert-plus[gpu]'",
            )
        if runtime.precision == "bf16" and wanted[0] == CPU[0]:
            raise InvalidInput(
                "onnx-bf16 is for a GPU: onnxruntime has no bf16 operators on the CPU",
                got=wanted[0],
                repair='load it with providers=["CUDAExecutionProvider"], or run onnx-int8 or openvino-bf16 here',
            )
        try:
            self.session = open_session(self.file, threads=threads, providers=wanted)
        except Exception as error:  # onnxruntime raises a class of its own for each failure, none of them public
            raise InvalidInput(
                "an ONNX file must load in onnxruntime", got=f"{self.file} ({error})", repair="export it again"
            ) from error
        self.config = load_config(directory, option="the target")
        self.inputs = tuple(node.name for node in self.session.get_inputs() if node.name not in self.settings)
        self.outputs = tuple(node.name for node in self.session.get_outputs() if node.name not in self.facts)
        check_names(self.file, self.inputs, self.outputs, self.config)
        self.output_class = output_class(self.config, self.outputs)
        check_answer(self)

    def run(self, tensors: dict[str, torch.Tensor]) -> ModelOutput:
        values = self.session.run(self.outputs, {name: tensor.numpy() for name, tensor in tensors.items()})
        named = {name: torch.from_numpy(value) for name, value in zip(self.outputs, values, strict=True)}
        return as_output(self.output_class, named)


@dataclass
class ExitedOutput(SequenceClassifierOutput):
    """transformers' output with the number of layers that each row ran, `[batch]`."""

    layers: torch.Tensor | None = None


class ExitEngine(OnnxEngine):
    """A graph of `albert-plus export --to onnx-exits`.

    Attributes:
        threshold: of its criterion, for the calls to come; None for the graph's own, which its export found.
    """

    settings = (THRESHOLD,)
    facts = ("layers",)
    threshold: float | None = None

    @property
    def own_threshold(self) -> float:
        """The graph's own threshold: that of the config in exports from before graphs said theirs."""
        said = self.session.get_modelmeta().custom_metadata_map.get(THRESHOLD)
        return self.config.exit_threshold if said is None else float(said)

    def run(self, tensors: dict[str, torch.Tensor]) -> ModelOutput:
        feed = {name: tensor.numpy() for name, tensor in tensors.items()}
        if self.threshold is not None:
            feed[THRESHOLD] = numpy.asarray(self.threshold, dtype=numpy.float32)
        logits, layers = self.session.run(["logits", "layers"], feed)
        return ExitedOutput(logits=torch.from_numpy(logits), layers=torch.from_numpy(layers))
