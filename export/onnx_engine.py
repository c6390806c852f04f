"""onnxruntime: fp32, half precision and int8 graphs on any of its execution providers."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers.utils import ModelOutput

from hf_albert_plus.checkpoints import load_config
from hf_albert_plus.errors import InvalidInput, suggest
from hf_albert_plus.export.engines import Engine
from hf_albert_plus.export.outputs import as_output, check_answer, check_names, output_class
from hf_albert_plus.export.runtimes import Runtime
from hf_albert_plus.export.sessions import CPU, open_session


class OnnxEngine(Engine):
    """An onnxruntime session with its default options but for the number of threads."""

    # Inputs and outputs of a graph that are none of the model's.
    settings: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def __init__(self, directory: Path, runtime: Runtime, *, threads: int, providers: Sequence[str] | None):
        import onnxruntime

        self.runtime, self.directory, self.file = runtime, directory, directory / runtime.file
        wanted = list(providers or CPU)
        there = onnxruntime.get_available_providers()
        unknown = [name for name in wanted if name not in there]
        if unknown:
            raise InvalidInput(
                "providers must be ones that this onnxruntime has",
                got=unknown[0],
                repair=f"{suggest(unknown[0], there)}; for a GPU: pip install 'hf-albert-plus[gpu]'",
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


__all__ = ["OnnxEngine"]
