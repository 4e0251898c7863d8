"""How much of a device's memory is taken."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from inference.engines.transformers.device import CGROUP, MEMINFO

FRESH_S = 1.0  # asking takes longer than the rest of a look at the engine's load
STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes taken and bytes there are: on a GPU by all processes, on a CPU by this one. 0 where nobody tells."""

    device: str
    used: int
    total: int


class MemoryGauge:
    """Reads the memory of one device, at most once a second."""

    def __init__(self, device: torch.device, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._device, self._clock = device, clock
        self._read_at = 0.0
        self._last: Memory | None = None

    def read(self) -> Memory:
        """Return what is taken now, or was a moment ago."""
        now = self._clock()
        if self._last is None or now - self._read_at >= FRESH_S:
            self._last, self._read_at = _read(self._device), now
        return self._last


def _read(device: torch.device) -> Memory:
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return Memory(str(device), total - free, total)
    return Memory(str(device), resident(), installed())


def resident(statm: Path = STATM) -> int:
    """Return what this process has of the machine's memory."""
    try:
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def installed(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int:
    """Return the machine's memory, or the share of it that the container may use."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return 0
    total = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:")), 0)
    try:
        return min(total, int((cgroup / "memory.max").read_text()))
    except (OSError, ValueError):  # "max"
        return total
