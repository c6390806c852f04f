"""A device, its clock and its memory, and one call of a model on it in each way that torch and onnxruntime have."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy
import torch

from hf_albert_plus.engines.onnx_session import CPU
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency.timing import Call, elapsed_ms
from hf_albert_plus.machine import environment

DeviceKind = Literal["cuda", "cpu"]


@dataclass(frozen=True)
class Device:
    """Where something is measured: the first NVIDIA GPU, or the CPU."""

    kind: DeviceKind

    @property
    def is_gpu(self) -> bool:
        return self.kind == "cuda"

    @property
    def name(self) -> str:
        """What its maker calls it."""
        return torch.cuda.get_device_name() if self.is_gpu else str(environment()["processor"])

    def time(self, call: Call) -> float:
        """Milliseconds of a call that is waited for: on a GPU between two events on the stream that it runs on."""
        if not self.is_gpu:
            return elapsed_ms(call)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def peak_mb(self, call: Call) -> float | None:
        """The most memory that torch took of a GPU at once during a call, beyond what it held before; None on a CPU."""
        if not self.is_gpu:
            return None
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return round((torch.cuda.max_memory_allocated() - before) / 1e6, 1)


def open_device(kind: DeviceKind) -> Device:
    """A device that torch can use.

    Raises:
        InvalidInput: a GPU that there is none of.
    """
    if kind == "cuda" and not torch.cuda.is_available():
        raise InvalidInput(
            "this needs an NVIDIA GPU that torch can use",
            got="none",
            repair="time it on the CPU: albert-plus bench DIR --baseline DIR",
        )
    return Device(kind)


def torch_call(model: Any, tensors: Mapping[str, torch.Tensor]) -> Call:
    """A forward pass of a model as it is."""

    @torch.inference_mode()
    def call() -> object:
        return model(**tensors)

    return call


def captured_call(model: Any, tensors: Mapping[str, torch.Tensor]) -> Call:
    """The model's kernels recorded once in a CUDA graph, and replayed without the CPU's part."""
    with torch.inference_mode():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(**tensors)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(**tensors)
    return graph.replay


@dataclass(frozen=True)
class OnnxCall:
    """A session of onnxruntime with its inputs and outputs bound on the device."""

    session: Any
    binding: Any

    def __call__(self) -> None:
        self.session.run_with_iobinding(self.binding)

    def first_output(self) -> torch.Tensor:
        """What the last call answered, on the CPU."""
        return torch.from_numpy(self.binding.copy_outputs_to_cpu()[0])


def onnx_call(path: Path, tensors: Mapping[str, torch.Tensor]) -> OnnxCall:
    """onnxruntime on the device of the tensors, on a GPU by its CUDA provider and on torch's stream, so that torch's events time it.

    Raises:
        InvalidInput: an onnxruntime without that provider.
    """
    import onnxruntime

    device = next(iter(tensors.values())).device
    providers: list[Any] = list(CPU)
    if device.type == "cuda":
        check_cuda_provider()
        stream = str(torch.cuda.current_stream().cuda_stream)
        providers.insert(0, ("CUDAExecutionProvider", {"user_compute_stream": stream}))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = onnxruntime.InferenceSession(str(path), sess_options=options, providers=providers)
    binding = session.io_binding()
    for node in session.get_inputs():
        tensor = tensors[node.name]
        binding.bind_input(node.name, device.type, 0, numpy.int64, tuple(tensor.shape), tensor.data_ptr())
    for node in session.get_outputs():
        binding.bind_output(node.name, device.type, 0)
    return OnnxCall(session, binding)


def check_cuda_provider() -> None:
    """Refuses an onnxruntime for the CPU alone.

    Raises:
        InvalidInput: it has no CUDA provider.
    """
    import onnxruntime

    available = onnxruntime.get_available_providers()
    if "CUDAExecutionProvider" not in available:
        raise InvalidInput(
            "timing ONNX on a GPU needs onnxruntime's CUDA provider",
            got=", ".join(available),
            repair="pip install 'hf-albert-plus[gpu]' in place of the extra cpu",
        )
