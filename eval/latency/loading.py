"""Loading of one target in a process of its own: `python -m hf_albert_plus.eval.latency.loading DIR RUNTIME THREADS SHAPES`."""

import importlib
import json
import sys
import time
from pathlib import Path

import psutil

from hf_albert_plus.engines.engine import Engine
from hf_albert_plus.eval.targets import Shape, parse_shapes, sample_tensors

# Imported before anything is counted: what is counted is the model's own.
_EVERYWHERE = (
    "transformers", "datasets", "hf_albert_plus.checkpoints", "hf_albert_plus.engines.tensors", "hf_albert_plus.engines.torch_engine",
)  # fmt: skip
_OF_ONNX = ("onnxruntime", "hf_albert_plus.engines.onnx_engine")
_OF_OPENVINO = ("openvino",)


def import_libraries(runtime: str) -> None:
    """Imports the libraries of a runtime, and has OpenVINO look for its devices."""
    more = _OF_ONNX if runtime.startswith("onnx") else _OF_OPENVINO if runtime.startswith("openvino") else ()
    modules = {name: importlib.import_module(name) for name in (*_EVERYWHERE, *more)}
    if "openvino" in modules:
        _ = modules["openvino"].Core().available_devices


def costs_of_loading(directory: Path, runtime: str, *, threads: int, shapes: list[Shape]) -> dict[str, float]:
    """Milliseconds and megabytes that opening a target adds, and the peak of the process after it ran each shape."""
    process = psutil.Process()
    before, start = process.memory_info().rss, time.perf_counter()
    engine = Engine.load(directory, runtime, threads=threads, verify=False)
    loaded, after = time.perf_counter(), process.memory_info().rss
    for shape in shapes:
        tensors = sample_tensors(engine.config, engine.inputs, shape)
        for _ in range(2):
            engine(**tensors)
    return {
        "load_ms": round((loaded - start) * 1e3, 1),
        "load_mb": round((after - before) / 1e6, 1),
        "peak_rss_mb": round(_peak_bytes() / 1e6, 1),
    }


def _peak_bytes() -> int:
    """The largest memory that this process has had."""
    # Linux hands ru_maxrss down from the process that started this one; its own peak stands in status.
    status = Path("/proc/self/status")
    if status.is_file():
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Prints the costs as the last line."""
    directory, runtime, threads, shapes = sys.argv[1:]
    import_libraries(runtime)
    costs = costs_of_loading(Path(directory), runtime, threads=int(threads), shapes=parse_shapes(shapes))
    print(json.dumps(costs))


if __name__ == "__main__":
    main()
