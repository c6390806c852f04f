"""The machine and libraries that a measurement belongs to."""

import os
import platform
from typing import Any

from hf_albert_plus.export.engines import physical_cores
from hf_albert_plus.records import versions


def environment(*, threads: int | None = None) -> dict[str, Any]:
    """What a figure must carry to be repeated: processor, cores, threads, memory, libraries."""
    import psutil

    return {
        "processor": _processor(),
        "cores": physical_cores(),
        "threads": threads or physical_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "features": _features(),
        "platform": platform.platform(),
        "versions": versions(),
    }


def _cpuinfo(field: str) -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")
    except OSError:
        return ""


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor() or os.uname().machine


def _features() -> list[str]:
    """The instruction sets that decide int8 and bf16 speed, as far as the system tells."""
    wanted = {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "avx_vnni"}
    return sorted(wanted & set(_cpuinfo("flags").split()))


__all__ = ["environment"]
