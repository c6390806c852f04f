"""TensorRT on an NVIDIA GPU."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers.utils import ModelOutput

from ..config_files import load_config
from ..errors import InvalidInput, need
from .artefacts import Runtime
from .engine import Engine
from .tensors import as_output, check_names, output_class


class TensorRtEngine(Engine):
    """One execution context on the current CUDA device. Tensors come and go through the CPU's memory."""

    def __init__(self, directory: Path, runtime: Runtime, *, threads: int, providers: Sequence[str] | None):
        trt = need("tensorrt", extra="tensorrt")
        if not torch.cuda.is_available():
            raise InvalidInput(
                "a TensorRT engine needs an NVIDIA GPU", got="none", repair=f"serve {directory}:onnx-int8 on a CPU"
            )
        self.runtime, self.directory, self.file = runtime, directory, directory / runtime.file
        self.trt_runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self.engine = self.trt_runtime.deserialize_cuda_engine(self.file.read_bytes())
        if self.engine is None:
            raise InvalidInput(
                "a TensorRT engine must be of this TensorRT and GPU",
                got=f"{self.file}, which does not load",
                repair="export it again on this machine (--to tensorrt)",
            )
        self.context = self.engine.create_execution_context()
        if self.context is None:
            raise InvalidInput(
                "a TensorRT engine needs room on the GPU", got="no execution context", repair="free memory on the GPU"
            )
        names = [self.engine.get_tensor_name(index) for index in range(self.engine.num_io_tensors)]
        is_input = {name: self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT for name in names}
        self.inputs = tuple(name for name in names if is_input[name])
        self.outputs = tuple(name for name in names if not is_input[name])
        self.config = load_config(directory, option="the target")
        check_names(self.file, self.inputs, self.outputs, self.config)
        self.output_class = output_class(self.config, self.outputs)
        self.stream = torch.cuda.Stream()

    def run(self, tensors: dict[str, torch.Tensor]) -> ModelOutput:
        with torch.cuda.stream(self.stream):
            on_device = {name: tensor.cuda(non_blocking=True).contiguous() for name, tensor in tensors.items()}
            for name, tensor in on_device.items():
                if not self.context.set_input_shape(name, tuple(tensor.shape)):
                    low, _, high = self.engine.get_tensor_profile_shape(name, 0)
                    raise InvalidInput(
                        f"{name} must lie between the shapes {tuple(low)} and {tuple(high)} of the engine's profile",
                        got=tuple(tensor.shape),
                        repair="export again with a wider --profile",
                    )
                self.context.set_tensor_address(name, tensor.data_ptr())
            outputs = {
                name: torch.empty(tuple(self.context.get_tensor_shape(name)), dtype=torch.float32, device="cuda")
                for name in self.outputs
            }
            for name, tensor in outputs.items():
                self.context.set_tensor_address(name, tensor.data_ptr())
            if not self.context.execute_async_v3(self.stream.cuda_stream):
                raise RuntimeError(f"TensorRT refused to run {self.file} on {dict.fromkeys(tensors)}")
            values = {name: tensor.cpu() for name, tensor in outputs.items()}
        return as_output(self.output_class, values)
