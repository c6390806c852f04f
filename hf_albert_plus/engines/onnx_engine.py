"""onnxruntime: the engine of fp32, half precision and int8 graphs, and the engine of graphs with exits."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import ModelOutput

from ..config_files import load_config
from .artefacts import Runtime
from .engine import Engine, check_answer
from .onnx_session import LAYERS, THRESHOLD, open_graph
from .tensors import as_output, check_names, output_class


class OnnxEngine(Engine):
    """An onnxruntime session with its default options but for the number of threads, how long they wait awake, and patterns of memory, which grow with
    every new shape."""

    # Inputs and outputs of a graph that are none of the model's.
    settings: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def __init__(self, directory: Path, runtime: Runtime, *, threads: int, providers: Sequence[str] | None):
        self.runtime, self.directory, self.file = runtime, directory, directory / runtime.file
        self.session = open_graph(self.file, runtime, threads=threads, providers=providers)
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
    facts = (LAYERS,)
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
        logits, layers = self.session.run(["logits", LAYERS], feed)
        return ExitedOutput(logits=torch.from_numpy(logits), layers=torch.from_numpy(layers))
