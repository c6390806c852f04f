"""Memory and time that loading an engine takes, measured in a process of its own."""

import json
import subprocess
import sys
from typing import Any

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.eval.targets import Target

# Libraries are imported, and another session opened, before: what is counted is this model's.
_SCRIPT = """
import json, os, sys, time
import psutil
from hf_albert_plus.cli.console import quiet_libraries
from hf_albert_plus.export.engines import Engine
from hf_albert_plus.export.runtimes import RUNTIMES
import hf_albert_plus.checkpoints, hf_albert_plus.export.torch_engine, hf_albert_plus.export.outputs
directory, runtime, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
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
seconds, after = time.perf_counter() - start, process.memory_info().rss
print(json.dumps({"load_ms": round(seconds * 1e3, 1), "load_mb": round((after - before) / 1e6, 1)}))
"""


def measure_loading(target: Target, *, threads: int) -> dict[str, Any]:
    """Milliseconds and resident megabytes that opening a target adds to a process which has imported its libraries.

    Raises:
        InvalidInput: it does not load.
    """
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(target.directory), target.runtime, str(threads)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise InvalidInput(
            f"{target.label} must load in a process of its own",
            got=(done.stderr.strip().splitlines() or ["no message"])[-1],
            repair="try albert-plus eval on it",
        )
    facts: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return facts


__all__ = ["measure_loading"]
