"""Loaded before Django is: gives the test run a home of its own, so that it touches nobody's state."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

for name in [name for name in os.environ if name.startswith("SLUICE_") and name != "SLUICE_MODELS"]:
    del os.environ[name]
for name in [name for name in os.environ if name.startswith("OTEL_")]:
    del os.environ[name]
os.environ.pop("REDIS_URL", None)
os.environ.pop("DATABASE_URL", None)
if url := os.environ.get("TEST_DATABASE_URL"):  # a server where databases may be made, as `tests.postgres` gives one
    os.environ["DATABASE_URL"] = url
os.environ.setdefault("SLUICE_MODELS", str(ROOT / "var" / "models"))
os.environ["SLUICE_HOME"] = tempfile.mkdtemp(prefix="sluice-test-")
