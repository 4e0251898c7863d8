"""What a worker would find on this machine, as JSON: torch, the GPUs it sees, and whether kernels can be compiled.

    python -m inference.probe

Web processes import no torch, so whoever wants to know asks this process.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

from inference.engines.transformers.device import resolve_device
from inference.engines.transformers.native.build import COMPILE_S, FLAGS, find_compiler
from inference.protocol.settings import SettingError, Settings, load


def look(settings: Settings) -> dict[str, Any]:
    """Return what there is; `problem` and `compiler_problem` are "" where nothing is wrong."""
    about: dict[str, Any] = {"torch": torch.__version__, "gpus": _gpus(), "device": "", "problem": ""}
    try:
        about["device"] = str(resolve_device(settings.device))
    except SettingError as error:
        about["problem"] = str(error)
    compiler = find_compiler()
    about["compiler"] = compiler or ""
    about["compiler_problem"] = _complaint(compiler) if compiler else "there is no C compiler"
    return about


def _gpus() -> list[dict[str, Any]]:
    found = []
    for i in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(i)
        found.append({"name": torch.cuda.get_device_name(i), "free": free, "total": total})
    return found


def _complaint(compiler: str) -> str:
    """Return why a compiler cannot make a library as our kernels are made, "" where it can."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text("#include <pthread.h>\nint probe(void) { return 0; }\n")
        command = [compiler, *FLAGS, str(source), "-o", str(Path(folder) / "probe.so"), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{compiler} cannot be run: {error}"
    return f"{compiler} failed: {' '.join(done.stderr.split())[-300:]}" if done.returncode else ""


if __name__ == "__main__":
    print(json.dumps(look(load())))
