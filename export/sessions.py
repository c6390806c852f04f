"""onnxruntime sessions, all opened alike: default options but for the number of threads and the warnings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

CPU = ("CPUExecutionProvider",)


def open_session(graph: Path | bytes, *, threads: int | None = None, providers: Sequence[str] = CPU) -> Any:
    """A session on a file or on a graph's bytes.

    Args:
        threads: threads of one inference, onnxruntime's own default where left out.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(
        graph if isinstance(graph, bytes) else str(graph), sess_options=options, providers=list(providers)
    )


__all__ = ["CPU", "open_session"]
