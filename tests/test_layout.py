"""The folder `platform/` must hide nothing, and nothing may hide our apps."""

from __future__ import annotations

import importlib
import platform
import sys

import pytest

from tests.environment import ROOT

APPS = sorted(folder.name for folder in (ROOT / "platform").iterdir() if (folder / "__init__.py").exists())


def test_platform_is_the_standard_library() -> None:
    assert not str(platform.__file__).startswith(str(ROOT))


@pytest.mark.parametrize("name", APPS)
def test_each_app_is_ours(name: str) -> None:
    assert name not in sys.stdlib_module_names
    assert str(importlib.import_module(name).__file__).startswith(str(ROOT / "platform" / name))
