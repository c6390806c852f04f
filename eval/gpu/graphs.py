"""Graphs on the device: onnxruntime's provider and TensorRT's engines, compared with the model in torch and timed in turns with it."""

import copy
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from hf_albert_plus.eval.gpu.gpu_rows import Attempts, Bench, GpuRow
from hf_albert_plus.eval.gpu.inference import on_device, own_stream, timed_rows
from hf_albert_plus.eval.latency.costs import Arithmetic
from hf_albert_plus.eval.latency.device_calls import check_cuda_provider, onnx_call, torch_call
from hf_albert_plus.eval.targets import Shape
from hf_albert_plus.model_inputs import longest_input
from hf_albert_plus.random_inputs import sample_inputs, whole_inputs

BASELINE = "torch bf16"
# The random batch that an int8 graph's ranges are found with: what is timed does not depend on them.
_CALIBRATION = Shape(4, 64)
Tensors = Mapping[str, torch.Tensor]


class Answers(Protocol):
    """A call that keeps what it answered."""

    def __call__(self) -> object: ...

    def first_output(self) -> torch.Tensor: ...


class PlanCall:
    """A TensorRT engine with its inputs and outputs bound on the GPU."""

    def __init__(self, directory: Path, tensors: Tensors):
        from hf_albert_plus.engines.artefacts import get_runtime
        from hf_albert_plus.engines.tensorrt_engine import TensorRtEngine

        self.engine = TensorRtEngine(directory, get_runtime("tensorrt"), threads=1, providers=None)
        self.bound = {name: tensors[name].contiguous() for name in self.engine.inputs}
        context = self.engine.context
        for name, tensor in self.bound.items():
            context.set_input_shape(name, tuple(tensor.shape))
        for name in self.engine.outputs:
            self.bound[name] = torch.empty(tuple(context.get_tensor_shape(name)), dtype=torch.float32, device="cuda")
        for name, tensor in self.bound.items():
            context.set_tensor_address(name, tensor.data_ptr())

    def __call__(self) -> None:
        if not self.engine.context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise RuntimeError(f"TensorRT refused to run {self.engine.file}")

    def first_output(self) -> torch.Tensor:
        """What the last call answered, on the CPU."""
        torch.cuda.synchronize()
        return self.bound[self.engine.outputs[0]].cpu()


def measure_onnx(bench: Bench) -> list[GpuRow]:
    """Graphs in fp32, fp16 and int8 by onnxruntime, on a GPU by its CUDA provider.

    Raises:
        InvalidInput: an onnxruntime without that provider.
    """
    if bench.device.is_gpu:
        check_cuda_provider()
    model = bench.classifier().cpu()
    with tempfile.TemporaryDirectory() as folder:
        graphs = write_graphs(model, Path(folder), forms=("fp32", "fp16", "int8"))
        facts = {f"onnxruntime {name}": {"graph_bytes": graph.stat().st_size} for name, graph in graphs.items()}

        def open_calls(tensors: Tensors) -> dict[str, Callable[[], Answers]]:
            return {f"onnxruntime {name}": partial(onnx_call, graph, tensors) for name, graph in graphs.items()}

        return _rows(bench, model, open_calls, facts)


def measure_tensorrt(bench: Bench) -> list[GpuRow]:
    """Engines in fp16 and int8 by TensorRT, with their bytes over their graphs'."""
    from hf_albert_plus.engines.artefacts import RUNTIMES
    from hf_albert_plus.export.settings import Profile
    from hf_albert_plus.export.tensorrt_plan import build_plan

    model = bench.classifier().cpu()
    best, largest = bench.sizes.roof_shape, bench.sizes.shapes[-1]
    profile = Profile((1, 1), (best.batch, best.length), (largest.batch, largest.length))
    with tempfile.TemporaryDirectory() as folder:
        graphs = write_graphs(model, Path(folder), forms=("fp16", "qdq"))
        directories: dict[str, Path] = {}
        facts: dict[str, dict[str, Any]] = {}
        for name, graph in graphs.items():
            label = f"TensorRT {'int8' if name == 'qdq' else name}"
            directories[label] = directory = Path(folder) / f"tensorrt-{name}"
            plan = directory / RUNTIMES["tensorrt"].file
            built = build_plan(graph, plan, profile=profile, timing_cache=None)
            model.config.save_pretrained(directory)
            sizes = {"graph_bytes": graph.stat().st_size, "engine_bytes": plan.stat().st_size}
            over = round(sizes["engine_bytes"] / sizes["graph_bytes"], 3)
            facts[label] = {**sizes, "bytes_over_graph_bytes": over, "tensorrt": built.tensorrt}

        def open_calls(tensors: Tensors) -> dict[str, Callable[[], Answers]]:
            return {label: partial(PlanCall, directory, tensors) for label, directory in directories.items()}

        return _rows(bench, model, open_calls, facts)


def write_graphs(model: Any, folder: Path, *, forms: tuple[str, ...]) -> dict[str, Path]:
    """A model's graphs.

    Args:
        forms: of fp32, fp16, int8 (onnxruntime's own operators) and qdq (standard ones, as TensorRT reads them).
    """
    from hf_albert_plus.export.graph.tracing import export_graph, save_graph
    from hf_albert_plus.export.precision.half import load_typed, to_half
    from hf_albert_plus.export.precision.input_ranges import find_ranges
    from hf_albert_plus.export.precision.int8 import quantise

    paths = {form: folder / f"{form}.onnx" for form in ("fp32", *forms)}
    save_graph(export_graph(model), paths["fp32"])
    if "fp16" in forms:
        typed = load_typed(paths["fp32"])
        to_half(typed, "fp16")
        save_graph(typed, paths["fp16"])
    if "int8" in forms or "qdq" in forms:
        length = min(_CALIBRATION.length, longest_input(model.config))
        random = whole_inputs(model.config, tuple(sample_inputs(model)), batch=_CALIBRATION.batch, length=length)
        ranges = find_ranges(paths["fp32"], [{name: tensor.numpy() for name, tensor in random.items()}])
        if "int8" in forms:
            quantise(paths["fp32"], paths["int8"], ranges=ranges)
        if "qdq" in forms:
            quantise(paths["fp32"], paths["qdq"], ranges=ranges, form="qdq", passes=())
    return {form: paths[form] for form in forms}


def _rows(
    bench: Bench,
    model: Any,
    open_calls: Callable[[Tensors], dict[str, Callable[[], Answers]]],
    facts: Mapping[str, dict[str, Any]],
) -> list[GpuRow]:
    """A row for each graph at the smallest shape and at that of the roof, beside torch in bf16.

    Args:
        open_calls: tensors on the device -> label -> what opens its call.
        facts: of each label's graph.
    """
    whole: Any = model.to(bench.device.kind)
    half = copy.deepcopy(whole).to(torch.bfloat16)
    arithmetic, rows = Arithmetic(model.config), list[GpuRow]()
    for shape in dict.fromkeys((bench.sizes.shapes[0], bench.sizes.roof_shape)):
        attempts, tensors = Attempts(), on_device(whole, shape, bench)
        with torch.inference_mode():
            expected = whole(**tensors).logits.cpu()
        parity: dict[str, dict[str, Any]] = {}
        calls: dict[str, Callable[[], object]] = {BASELINE: torch_call(half, tensors)}
        with own_stream(bench):
            for label, open_call in open_calls(tensors).items():
                with attempts.attempt(label, str(shape)):
                    call = open_call()
                    call()
                    parity[label] = {**facts[label], **_parity(call.first_output(), expected)}
                    calls[label] = call
            timed = timed_rows(bench, calls, shape, baseline=BASELINE, operations=arithmetic.flops(shape))
        rows += [replace(row, facts={**row.facts, **parity.get(row.label, {})}) for row in timed]
        rows += attempts.rows
    return rows


def _parity(answer: torch.Tensor, expected: torch.Tensor) -> dict[str, float]:
    """How far an answer lies from the model's in torch fp32."""
    one, other = answer.double().flatten(), expected.double().flatten()
    cosine = torch.nn.functional.cosine_similarity(one, other, dim=0)
    return {"max_abs_difference": float((one - other).abs().max()), "cosine": round(float(cosine), 6)}
