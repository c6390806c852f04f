"""OpenVINO on the CPU or another of its devices."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers.utils import ModelOutput

from ..config_files import load_config
from ..errors import InvalidInput, need
from .artefacts import Runtime
from .engine import Engine, check_answer
from .tensors import as_output, check_names, output_class

# What a graph's floating point is computed in. An int8 graph leaves it to OpenVINO, which takes bf16 where it is fast.
_PRECISION_HINTS = {"fp32": "f32", "bf16": "bf16"}


class OpenVinoEngine(Engine):
    """One inference request of a compiled model, for latency."""

    def __init__(self, directory: Path, runtime: Runtime, *, threads: int, providers: Sequence[str] | None):
        openvino = need("openvino", extra="openvino")
        self.runtime, self.directory, self.file = runtime, directory, directory / runtime.file
        settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        if runtime.precision in _PRECISION_HINTS:
            settings["INFERENCE_PRECISION_HINT"] = _PRECISION_HINTS[runtime.precision]
        device = next(iter(providers or ["CPU"]))
        core = openvino.Core()
        if device not in core.available_devices:
            raise InvalidInput(
                "providers must name a device that OpenVINO has",
                got=device,
                repair=f"use one of {', '.join(core.available_devices)}",
            )
        try:
            self.compiled = core.compile_model(
                core.read_model(self.file), device, settings if device == "CPU" else {"PERFORMANCE_HINT": "LATENCY"}
            )
            self.inputs = tuple(port.get_any_name() for port in self.compiled.inputs)
            self.outputs = tuple(port.get_any_name() for port in self.compiled.outputs)
        except Exception as error:  # OpenVINO raises RuntimeError and classes of its own alike
            raise InvalidInput(
                "an OpenVINO file must load in OpenVINO",
                got=f"{self.file} ({str(error).strip().splitlines()[-1]})",
                repair="export it again",
            ) from error
        self.config = load_config(directory, option="the target")
        check_names(self.file, self.inputs, self.outputs, self.config)
        self.output_class = output_class(self.config, self.outputs)
        self.request = self.compiled.create_infer_request()
        check_answer(self)

    def run(self, tensors: dict[str, torch.Tensor]) -> ModelOutput:
        self.request.infer({name: tensor.numpy() for name, tensor in tensors.items()}, share_inputs=True)
        named = {
            name: torch.from_numpy(self.request.get_tensor(port).data.copy())
            for name, port in zip(self.outputs, self.compiled.outputs, strict=True)
        }
        return as_output(self.output_class, named)
