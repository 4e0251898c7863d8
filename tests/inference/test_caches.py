"""Where what is made once is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from inference.caches import cache_folder
from inference.protocol.settings import load


def test_it_is_beside_the_models(tmp_path: Path) -> None:
    settings = replace(load({}), home=str(tmp_path / "home"), models=str(tmp_path / "models"))
    assert cache_folder(settings, ".kernels") == tmp_path / "models" / ".kernels"


def test_read_only_models_leave_it_to_our_own_state(tmp_path: Path) -> None:
    (tmp_path / "models").touch()  # takes no folder either, and not even root can change that
    settings = replace(load({}), home=str(tmp_path / "home"), models=str(tmp_path / "models"))
    assert cache_folder(settings, ".kernels") == tmp_path / "home" / ".kernels"
