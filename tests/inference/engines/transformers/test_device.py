from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inference.engines.transformers import device
from inference.protocol.settings import SettingError

CPU = torch.device("cpu")


def test_it_works() -> None:
    assert device.resolve_device("cpu") == CPU
    assert device.resolve_dtype("float16", CPU) == torch.float16
    assert device.resolve_dtype("auto", CPU) in (torch.float32, torch.bfloat16)


@pytest.mark.parametrize("name", ["gpu", "meta", "cuda:", "cuda:99", ""])
def test_it_refuses_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(SettingError, match="SLUICE_DEVICE"):
        device.resolve_device(name)


@pytest.mark.parametrize(("has_bfloat16", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_it_takes_bfloat16_where_the_processor_computes_in_it(
    monkeypatch: pytest.MonkeyPatch, has_bfloat16: bool, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has_bfloat16})

    assert device.resolve_dtype("auto", CPU) == dtype


def test_it_keeps_to_the_share_of_its_container(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("100000 100000\n")

    assert device.usable_cores(tmp_path) == 1


@pytest.mark.parametrize("text", ["max 100000\n", "nonsense", None])
def test_it_takes_all_cores_where_there_is_no_limit(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "cpu.max").write_text(text)

    assert device.usable_cores(tmp_path) >= 1


def test_it_reads_the_free_memory(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable: 7 kB\n")

    assert device.free_memory(CPU, tmp_path / "meminfo") == 7 * 1024
    assert device.free_memory(CPU, tmp_path / "missing") is None


def test_it_keeps_to_the_memory_of_its_container(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemAvailable: 90 kB\n")
    for name, text in {"max": "50000\n", "current": "40000\n", "stat": "anon 30000\ninactive_file 6000\n"}.items():
        (tmp_path / f"memory.{name}").write_text(text)

    assert device.free_memory(CPU, tmp_path / "meminfo", tmp_path) == 16000

    (tmp_path / "memory.max").write_text("max\n")
    assert device.free_memory(CPU, tmp_path / "meminfo", tmp_path) == 90 * 1024


def test_it_knows_what_is_out_of_memory() -> None:
    assert device.is_out_of_memory(torch.OutOfMemoryError())
    assert device.is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not device.is_out_of_memory(RuntimeError("size mismatch"))
