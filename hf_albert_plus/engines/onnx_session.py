"""Sessions of onnxruntime, and what is refused before one is opened. Nothing here needs torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InvalidInput, suggest
from .artefacts import Runtime
from .unsigned_weights import exact

CPU = ("CPUExecutionProvider",)
# Of a graph with exits: the input that decides which rows leave, which a caller may give another value, and the output that says where each left.
THRESHOLD, LAYERS = "threshold", "layers"

# How long a thread waits awake for the others and for the next call. onnxruntime's own 50 ms keep a core from whoever else has work, and make no
# call faster.
_SPIN_US = "1000"


def open_session(graph: Path | bytes, *, threads: int | None = None, providers: Sequence[str] = CPU) -> Any:
    """A session on a file or on a graph's bytes, whose int8 products are exact on any x86 CPU.

    Args:
        threads: threads of one inference, onnxruntime's own default where left out.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # A pattern of memory is kept for each shape that was seen, and saves nothing measurable.
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN_US)
    if threads is not None:
        options.intra_op_num_threads = threads
    if tuple(providers) == CPU:
        graph = exact(graph)
    return onnxruntime.InferenceSession(
        graph if isinstance(graph, bytes) else str(graph), sess_options=options, providers=list(providers)
    )


def open_graph(file: Path, runtime: Runtime, *, threads: int, providers: Sequence[str] | None = None) -> Any:
    """A session on the file of a runtime.

    Args:
        providers: in order of preference; the CPU's by default.

    Raises:
        InvalidInput: a provider that this onnxruntime does not have, or a file that does not load on it.
    """
    import onnxruntime

    wanted = list(providers or CPU)
    available = onnxruntime.get_available_providers()
    unknown = [name for name in wanted if name not in available]
    if unknown:
        raise InvalidInput(
            "providers must be ones that this onnxruntime has",
            got=unknown[0],
            repair=f"{suggest(unknown[0], available)}; for a GPU: pip install 'hf-albert-plus[gpu]'",
        )
    if runtime.precision == "bf16" and wanted[0] == CPU[0]:
        raise InvalidInput(
            "onnx-bf16 is for a GPU: onnxruntime has no bf16 operators on the CPU",
            got=wanted[0],
            repair='load it with providers=["CUDAExecutionProvider"], or run onnx-int8 or openvino-bf16 here',
        )
    try:
        return open_session(file, threads=threads, providers=wanted)
    except Exception as error:  # onnxruntime raises a class of its own for each failure, none of them public
        raise InvalidInput(
            "an ONNX file must load in onnxruntime", got=f"{file} ({error})", repair="export it again"
        ) from error
