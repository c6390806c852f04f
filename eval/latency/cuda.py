"""The bench of an NVIDIA GPU, which times by device events."""

from pathlib import Path
from typing import Any

import numpy
import torch

from hf_albert_plus.engines.artefacts import RUNTIMES
from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.latency.comparison import ComparedRow, Comparison
from hf_albert_plus.eval.latency.timing import Call, summarise, time_calls
from hf_albert_plus.eval.measured_documents import Cell, Environment
from hf_albert_plus.eval.targets import Shape, Target, check_shapes, sample_tensors
from hf_albert_plus.random_inputs import sample_inputs

BASELINE = "torch fp32"
_GRAPHS = ("onnx", "onnx-fp16", "onnx-int8", "onnx-qdq")


def bench_cuda(target: Target, *, shapes: list[Shape], seconds: float = 3.0) -> Comparison:
    """Times a model directory on the current CUDA device: torch fp32 and bf16, compiled, captured in a CUDA graph, and
    every ONNX graph of the directory with onnxruntime's CUDA provider, inputs and outputs on the device.

    Ways take turns as on the CPU. Each call lies between two events on the stream that it
    runs on, and is waited for before the next.

    Returns:
        A document like that of the CPU's bench.

    Raises:
        InvalidInput: no CUDA device.
    """
    if not torch.cuda.is_available():
        raise InvalidInput(
            "this needs an NVIDIA GPU that torch can use",
            got="none",
            repair="time it on the CPU: albert-plus bench DIR --baseline DIR",
        )
    from hf_albert_plus.checkpoints import open_as_trained

    opened: Any = open_as_trained(target.directory, option="the target")
    model = opened.cuda()
    check_shapes(shapes, model.config, name=target.name)
    rows: dict[str, dict[str, Cell]] = {}
    for shape in shapes:
        # A stream of its own: onnxruntime takes the default one, whose handle is 0, for none.
        with torch.cuda.stream(torch.cuda.Stream()):
            ways = _ways(model, target.directory, shape)
            timings = time_calls(
                ways, baseline=BASELINE, seconds=seconds, description=f"time {shape}", stopwatch=_event_ms
            )
        for label, cell in summarise(timings, baseline=BASELINE, items=shape.batch).items():
            rows.setdefault(label, {})[str(shape)] = cell
    return Comparison(
        kind="cuda",
        baseline=BASELINE,
        loads=[str(shape) for shape in shapes],
        rows=[ComparedRow(label=label, loads=cells) for label, cells in rows.items()],
        gpu=torch.cuda.get_device_name(),
        peak_device_mb=round(torch.cuda.max_memory_allocated() / 1e6, 1),
        environment=Environment.here(threads=None),
    )


def _ways(model: Any, directory: Path, shape: Shape) -> dict[str, Call]:
    """Label -> one call at a shape."""
    import copy

    tensors = {
        name: tensor.cuda() for name, tensor in sample_tensors(model.config, list(sample_inputs(model)), shape).items()
    }
    half = copy.deepcopy(model).to(torch.bfloat16)
    ways: dict[str, Call] = {
        BASELINE: _torch_call(model, tensors),
        "torch bf16": _torch_call(half, tensors),
        "torch.compile bf16": _torch_call(torch.compile(half, dynamic=False), tensors),
        "torch bf16 CUDA graph": _captured(half, tensors),
    }
    for name in _GRAPHS:
        path = directory / RUNTIMES[name].file
        if path.is_file():
            ways[f"{RUNTIMES[name].label} CUDA provider"] = _onnx_call(path, tensors)
    return ways


def _torch_call(model: Any, tensors: dict[str, torch.Tensor]) -> Call:
    @torch.inference_mode()
    def call() -> object:
        return model(**tensors)

    return call


def _captured(model: Any, tensors: dict[str, torch.Tensor]) -> Call:
    """The model's kernels recorded once and replayed without the CPU's part."""
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


def _onnx_call(path: Path, tensors: dict[str, torch.Tensor]) -> Call:
    """onnxruntime on torch's stream, so that torch's events time it."""
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise InvalidInput(
            "timing ONNX on a GPU needs onnxruntime's CUDA provider",
            got=", ".join(onnxruntime.get_available_providers()),
            repair="pip install 'hf-albert-plus[gpu]' in place of the extra cpu",
        )
    stream = str(torch.cuda.current_stream().cuda_stream)
    session = onnxruntime.InferenceSession(
        str(path), providers=[("CUDAExecutionProvider", {"user_compute_stream": stream}), "CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for node in session.get_inputs():
        tensor = tensors[node.name]
        binding.bind_input(node.name, "cuda", 0, numpy.int64, tuple(tensor.shape), tensor.data_ptr())
    for node in session.get_outputs():
        binding.bind_output(node.name, "cuda", 0)
    return lambda: session.run_with_iobinding(binding)


def _event_ms(call: Call) -> float:
    """Milliseconds between events on the current stream, before and after a call that is waited for."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)
