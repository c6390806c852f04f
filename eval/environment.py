"""The machine and libraries that a measurement belongs to."""

import os
import platform
from pathlib import Path
from typing import Any

from hf_albert_plus.export.engines import physical_cores
from hf_albert_plus.records import versions

# Of score and latency documents; it goes up when their fields change.
FORMAT = 2


def environment(*, threads: int | None = None) -> dict[str, Any]:
    """What a figure must carry to be repeated: processor, cores and which of them, clock governor, threads, memory,
    libraries, and how busy the machine was (its load average over a minute)."""
    import psutil

    return {
        "processor": _processor(),
        "cores": physical_cores(),
        "threads": threads or physical_cores(),
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "governor": _governor(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
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


def _governor() -> str | None:
    """The frequency governor of the first core; None where the system hides it, as virtual machines do."""
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor() or os.uname().machine


def _features() -> list[str]:
    """The instruction sets that decide int8 and bf16 speed, as far as the system tells."""
    wanted = {"avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "avx_vnni"}
    return sorted(wanted & set(_cpuinfo("flags").split()))


def machine(document: dict[str, Any]) -> str:
    """What must agree before two measurements stand in one table."""
    facts = document["environment"]
    cores = f"{facts['cores']} cores, {facts['memory_gib']} GiB, {' '.join(facts['features'])}"
    return f"{facts['processor']} ({cores}) with {facts['threads']} threads"


__all__ = ["FORMAT", "environment", "machine"]
