"""The bench of an NVIDIA GPU, which times by device events."""

import copy
from pathlib import Path
from typing import Any

import torch

from hf_albert_plus.engines.artefacts import RUNTIMES
from hf_albert_plus.eval.latency.comparison import ComparedRow, Comparison
from hf_albert_plus.eval.latency.device_calls import captured_call, onnx_call, open_device, torch_call
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
    device = open_device("cuda")
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
                ways, baseline=BASELINE, seconds=seconds, description=f"time {shape}", stopwatch=device.time
            )
        for label, cell in summarise(timings, baseline=BASELINE, items=shape.batch).items():
            rows.setdefault(label, {})[str(shape)] = cell
    return Comparison(
        kind="cuda",
        baseline=BASELINE,
        loads=[str(shape) for shape in shapes],
        rows=[ComparedRow(label=label, loads=cells) for label, cells in rows.items()],
        gpu=device.name,
        peak_device_mb=round(torch.cuda.max_memory_allocated() / 1e6, 1),
        environment=Environment.here(threads=None),
    )


def _ways(model: Any, directory: Path, shape: Shape) -> dict[str, Call]:
    """Label -> one call at a shape."""
    tensors = {
        name: tensor.cuda() for name, tensor in sample_tensors(model.config, list(sample_inputs(model)), shape).items()
    }
    half = copy.deepcopy(model).to(torch.bfloat16)
    ways: dict[str, Call] = {
        BASELINE: torch_call(model, tensors),
        "torch bf16": torch_call(half, tensors),
        "torch.compile bf16": torch_call(torch.compile(half, dynamic=False), tensors),
        "torch bf16 CUDA graph": captured_call(half, tensors),
    }
    for name in _GRAPHS:
        path = directory / RUNTIMES[name].file
        if path.is_file():
            ways[f"{RUNTIMES[name].label} CUDA provider"] = onnx_call(path, tensors)
    return ways
