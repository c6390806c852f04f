"""What a target takes in a process of its own: time to load from cold files, and memory."""

import json
import os
import subprocess
import sys
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.shapes import Shape
from hf_albert_plus.eval.targets import Target
from hf_albert_plus.export.engines import engine_file, weight_files

# Libraries are imported, and another session opened, before: what is counted is this model's.
_SCRIPT = """
import json, resource, sys, time
from pathlib import Path
import psutil
from hf_albert_plus.cli.console import quiet_libraries
from hf_albert_plus.eval.shapes import Shape, sample_tensors
from hf_albert_plus.export.engines import Engine
import hf_albert_plus.checkpoints, hf_albert_plus.export.torch_engine, hf_albert_plus.export.outputs
directory, runtime, threads, shapes = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
quiet_libraries()
if runtime.startswith("onnx"):
    import onnxruntime
    import hf_albert_plus.export.onnx_engine
elif runtime.startswith("openvino"):
    import openvino
    openvino.Core().available_devices
process = psutil.Process()
before, start = process.memory_info().rss, time.perf_counter()
engine = Engine.load(directory, runtime, threads=threads, verify=False)
loaded, after = time.perf_counter(), process.memory_info().rss
for batch, length in shapes:
    tensors = sample_tensors(engine.config, engine.inputs, Shape(batch, length))
    for _ in range(2):
        engine(**tensors)
# Linux hands ru_maxrss down from the process that started this one; its own peak stands in status.
status = Path("/proc/self/status")
own = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")] if status.is_file() else []
scale = 1 if sys.platform == "darwin" else 1024
peak = int(own[0]) * 1024 if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
print(json.dumps({
    "load_ms": round((loaded - start) * 1e3, 1),
    "load_mb": round((after - before) / 1e6, 1),
    "peak_rss_mb": round(peak / 1e6, 1),
}))
"""


def measure_process(target: Target, *, shapes: list[Shape], threads: int) -> dict[str, Any]:
    """Loads a target in a process of its own, its files dropped from the system's cache where the system lets us, and
    runs each shape.

    Returns:
        load_ms and load_mb that opening it adds once the libraries are imported, and peak_rss_mb of the whole process,
        libraries included.

    Raises:
        InvalidInput: it does not load.
    """
    for path in weight_files(engine_file(target.directory, target.runtime)):
        _drop_from_cache(str(path))
    done = subprocess.run(
        [
            sys.executable, "-c", _SCRIPT, str(target.directory), target.runtime, str(threads),
            json.dumps([[shape.batch, shape.length] for shape in shapes]),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise InvalidInput(
            f"{target.label} must load in a process of its own",
            got=(done.stderr.strip().splitlines() or ["no message"])[-1],
            repair="try albert-plus eval on it",
        )
    facts: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return facts


def _drop_from_cache(path: str) -> None:
    if not hasattr(os, "posix_fadvise"):
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


__all__ = ["measure_process"]
