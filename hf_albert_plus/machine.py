"""The machine that a model runs on: its processor, cores, threads and libraries, which a measurement belongs to."""

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .records.record import versions

if TYPE_CHECKING:
    import torch


def fastest_device() -> "torch.device":
    """The machine's accelerator, or its CPU."""
    import torch

    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


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


def physical_cores() -> int:
    """Physical cores this process may run on, and no more than its container may use of them."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(psutil.cpu_count(logical=False) or 1, allowed, container_cores()))


def use_threads(threads: int | None = None) -> None:
    """Sets how many threads torch computes an operator with, in the whole process: torch has no other place for it. All physical cores by
    default."""
    import torch

    torch.set_num_threads(threads or physical_cores())


def container_cores(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Whole cores of a container's quota (version 2 of Linux's control groups), as many as there are without one.

    Args:
        cpu_max: microseconds of processor time in a period, or `max`, and the period.
    """
    quota, _, period = cpu_max.read_text().partition(" ") if cpu_max.is_file() else ("max", "", "")
    return (os.cpu_count() or 1) if quota == "max" else max(1, int(quota) // int(period))


def multiplies_bf16() -> bool:
    """Whether this machine has bf16 matrix instructions: a GPU that does, or a CPU with AVX512-BF16 or AMX."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if not hasattr(torch.cpu, "get_capabilities"):
        return False
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
