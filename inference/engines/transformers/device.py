"""What the machine can do."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import torch

from inference.protocol.settings import SettingError

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def resolve_device(name: str) -> torch.device:
    """Return the device of a name, or raise `SettingError` when this machine has no such device."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise SettingError(f"SLUICE_DEVICE={name!r}: expected auto, cpu, cuda or cuda:N.")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingError(f"SLUICE_DEVICE={name!r}: this machine has {torch.cuda.device_count()} CUDA devices.")
    return device


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        name = "bfloat16" if _computes_bfloat16(device) else "float32"
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype), f"{name} is not a dtype"
    return dtype


def _computes_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Return the cores this process may use; torch counts those of the host, however small the container's share."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


def free_memory(device: torch.device, meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Return the bytes still free on a device, of a CPU's those that the container may use; None where nobody tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    return None if free is None else min(free, _left_to_container(cgroup))


def _left_to_container(cgroup: Path) -> int:
    try:
        limit, used = (int((cgroup / name).read_text()) for name in ("memory.max", "memory.current"))
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # "max"
        return sys.maxsize
    return max(0, limit - used + int(stat.get("inactive_file", 0)))  # what was read from files makes room


def is_out_of_memory(error: BaseException) -> bool:
    # The allocator of the CPU raises a plain RuntimeError, and so do libraries that allocate for themselves.
    words = str(error)
    known = ("DefaultCPUAllocator", "CUDA error: out of memory", "_ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(word in words for word in known)


def give_memory_back() -> None:
    """Return to the device what torch keeps of it for later, so that it can be had in one piece."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
