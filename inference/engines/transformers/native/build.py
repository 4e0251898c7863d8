"""Bring the kernels: compiled once for this machine, by its own compiler."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

logger = logging.getLogger(__name__)

SOURCES = [Path(__file__).with_name(name) for name in ("kernels.c", "pool.h")]
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-shared", "-fPIC", "-pthread", "-Wno-psabi")
COMPILE_S = 120.0


class NoKernels(Exception):
    """Raised where the kernels cannot be had; the message says why."""


def find_compiler() -> str | None:
    """Return the path of this machine's C compiler, None where it has none."""
    return shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")


def load_kernels(folder: Path, *, threads: int) -> ctypes.CDLL:
    """Load the kernels to run on so many threads, compiled first if `folder` does not hold them; raise `NoKernels`."""
    compiler = find_compiler()
    if compiler is None:
        raise NoKernels("there is no C compiler (install gcc or clang)")
    try:
        kernels = _open(compiler, folder / f"kernels-{_fingerprint(compiler)}.so")
        if kernels.start_pool(threads):
            raise NoKernels(f"{threads} threads cannot be started")
        return kernels
    except OSError as error:
        raise NoKernels(str(error)) from error


def _open(compiler: str, library: Path) -> ctypes.CDLL:
    if library.exists():
        try:
            return ctypes.CDLL(str(library))
        except OSError as error:  # the machine died before all of it was on the disk
            logger.warning("%s is compiled again: %s", library.name, error)
    _compile(compiler, library)
    return ctypes.CDLL(str(library))


def _compile(compiler: str, library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        done = _run(compiler, *FLAGS, str(SOURCES[0]), "-o", str(made), "-lm")
        if done.returncode:
            raise NoKernels(f"{compiler} failed: {done.stderr.strip()[-500:]}")
        made.replace(library)  # at once, since another worker may be looking for it


def _run(compiler: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run([compiler, *arguments], capture_output=True, text=True, timeout=COMPILE_S)
    except subprocess.TimeoutExpired:
        raise NoKernels(f"{compiler} took longer than {COMPILE_S:.0f} s") from None


def _fingerprint(compiler: str) -> str:
    """Name what a compilation depends on: a folder may be shared by machines, and outlive a compiler."""
    parts = (
        *(source.read_text(encoding="utf-8") for source in SOURCES),
        *FLAGS,
        compiler,
        _run(compiler, "--version").stdout,
        platform.machine(),
        _cpu(),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in lines[:40] if line.startswith(("model name", "flags", "Features", "CPU part")))
