"""Bringing models from within Django's commands: by a process of its own, since no process of ours loads torch."""

from __future__ import annotations

import os
import subprocess
import sys

from config.leash import leashed
from inference.protocol.settings import ROOT, Settings


def fetch(settings: Settings, *arguments: str) -> int:
    """Run `python -m inference.models` in our terminal; return its exit status (130: stopped by Ctrl-C)."""
    command = (sys.executable, "-m", "inference.models", *arguments)
    environment = os.environ | {"SLUICE_HOME": str(settings.home_path), "SLUICE_MODELS": str(settings.models_path)}
    try:
        return subprocess.run(leashed(command), env=environment, cwd=ROOT).returncode
    except KeyboardInterrupt:
        return 130
