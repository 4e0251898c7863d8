"""What a worker would find on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inference import probe
from inference.protocol.settings import load

SETTINGS = replace(load({}), device="cpu")


def test_it_works() -> None:
    about = probe.look(SETTINGS)
    assert (about["device"], about["problem"]) == ("cpu", "")
    assert about["torch"]


def test_a_device_that_is_not_there_is_told_of() -> None:
    assert "this machine has" in probe.look(replace(SETTINGS, device="cuda:99"))["problem"]


@pytest.mark.parametrize(
    ("script", "complaint"),
    [("exit 0", ""), ("echo no headers >&2; exit 1", "failed: no headers")],
)
def test_a_compiler_is_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, complaint: str) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    about = probe.look(SETTINGS)
    assert about["compiler"] == str(compiler)
    assert about["compiler_problem"].endswith(complaint)
    assert bool(about["compiler_problem"]) == bool(complaint)


def test_a_machine_without_one_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert probe.look(SETTINGS)["compiler_problem"] == "there is no C compiler"
