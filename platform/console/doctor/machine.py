"""The machine: open files, and what a worker would find of GPUs and compilers."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from django.conf import settings

from console.doctor.findings import Finding, fail, ok, warn
from inference.protocol.settings import ROOT, Settings

FEWEST_FILES, FEW_FILES = 1024, 8192
PROBE_S = 180.0


def open_files() -> Iterator[Finding]:
    """Look at how many files a process may open: each stream takes a socket of its gateway."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield judge_open_files(most)


def judge_open_files(most: int) -> Finding:
    """Judge the hard limit, to which gateways raise their own."""
    if most == resource.RLIM_INFINITY:
        return ok("open files", "no limit")
    text = f"{most:,} for each process"
    advice = f"Raise it to {FEW_FILES:,} or more: `ulimit -Hn`, LimitNOFILE= of systemd, --ulimit of Docker."
    if most < FEWEST_FILES:
        return fail("open files", text, advice)
    return warn("open files", text, advice) if most < FEW_FILES else ok("open files", text)


def for_workers() -> Iterator[Finding]:
    """Look at what a worker would find here, in a process of its own: none of ours loads torch."""
    if settings.SLUICE.engine == "simulated":
        yield ok("torch", "not needed: SLUICE_ENGINE=simulated")
        return
    about, fault = _probe()
    if fault:
        yield fail("torch", fault, "Workers cannot start here. Run: pip install -c constraints.txt -e .")
    else:
        yield from judge_probe(about, settings.SLUICE)


def _probe() -> tuple[dict[str, Any], str]:
    """Return what the probe tells, or why it cannot."""
    command = (sys.executable, "-m", "inference.probe")
    try:
        done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=PROBE_S)
    except subprocess.TimeoutExpired:
        return {}, f"It does not load within {PROBE_S:.0f} s."
    if done.returncode:
        return {}, f"It does not load: {(done.stderr.strip().splitlines() or ['no word'])[-1][:200]}"
    about: dict[str, Any] = json.loads(done.stdout)
    return about, ""


def judge_probe(about: dict[str, Any], ours: Settings) -> Iterator[Finding]:
    """Judge what `inference.probe` tells."""
    yield ok("torch", about["torch"])
    if about["problem"]:
        yield fail("gpu", about["problem"], "Set SLUICE_DEVICE to what there is, or look at the GPU's driver.")
    elif about["gpus"]:
        names = (f"{gpu['name']}, {gpu['free'] / 1e9:.0f} of {gpu['total'] / 1e9:.0f} GB free" for gpu in about["gpus"])
        yield ok("gpu", "; ".join(names))
    else:
        yield ok("gpu", "torch sees none: workers compute on the CPU")
    if about["device"] == "cpu" and ours.engine == "transformers" and ours.kernels != "torch":
        yield _compiler(about, needed=ours.kernels == "native" or ours.quantize != "none")


def _compiler(about: dict[str, Any], *, needed: bool) -> Finding:
    if not about["compiler_problem"]:
        return ok("compiler", f"{about['compiler']} makes libraries")
    make = fail if needed else warn
    return make("compiler", f"{about['compiler_problem']}.", "Install gcc or clang: torch's kernels are far slower.")
