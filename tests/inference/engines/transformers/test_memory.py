"""How much of a device's memory is taken."""

from __future__ import annotations

from pathlib import Path

import torch

from inference.engines.transformers.memory import FRESH_S, MemoryGauge, installed, resident


def test_it_works() -> None:
    memory = MemoryGauge(torch.device("cpu")).read()

    assert memory.device == "cpu"
    assert 0 < memory.used < memory.total


def test_it_asks_once_in_a_while() -> None:
    now = 5.0
    gauge = MemoryGauge(torch.device("cpu"), clock=lambda: now)
    first = gauge.read()

    assert gauge.read() is first
    now += FRESH_S
    assert gauge.read() is not first


def test_a_container_has_what_it_is_given(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16000 kB\nMemFree: 1 kB\n")
    assert installed(meminfo, tmp_path) == 16000 * 1024

    (tmp_path / "memory.max").write_text("max\n")
    assert installed(meminfo, tmp_path) == 16000 * 1024
    (tmp_path / "memory.max").write_text("4096\n")
    assert installed(meminfo, tmp_path) == 4096


def test_where_nobody_tells_it_is_nothing(tmp_path: Path) -> None:
    assert (resident(tmp_path / "no"), installed(tmp_path / "no", tmp_path)) == (0, 0)
