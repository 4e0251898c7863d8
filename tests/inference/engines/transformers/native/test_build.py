"""Compiling the kernels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from inference.engines.transformers.native import build
from inference.engines.transformers.native.build import NoKernels, load_kernels


def test_it_works(compiled: Path) -> None:
    (library,) = compiled.iterdir()
    assert library.suffix == ".so"


def test_what_is_compiled_is_not_compiled_again(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_compile", None)
    load_kernels(compiled, threads=2)


def test_what_is_broken_is_compiled_again(compiled: Path, tmp_path: Path) -> None:
    (library,) = compiled.iterdir()
    (tmp_path / library.name).write_bytes(b"")
    load_kernels(tmp_path, threads=1)
    assert (tmp_path / library.name).stat().st_size > 0


def test_another_source_is_compiled_anew(compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build._fingerprint("cc")
    changed = tmp_path / "kernels.c"
    changed.write_text("int step;")
    monkeypatch.setattr(build, "SOURCES", [changed])
    assert build._fingerprint("cc") != before


def test_no_compiler_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoKernels, match="no C compiler"):
        load_kernels(tmp_path, threads=1)


def test_a_compiler_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "kernels.c"
    broken.write_text("int broken(")
    monkeypatch.setattr(build, "SOURCES", [broken])
    with pytest.raises(NoKernels, match="expected"):
        load_kernels(tmp_path / "made", threads=1)
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize("at", ["--version", "-shared"])
def test_a_compiler_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def hang(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if at in command:
            raise subprocess.TimeoutExpired(command, 1)
        return subprocess.CompletedProcess(command, 0, stdout="cc 1.0")

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(NoKernels, match="longer than"):
        load_kernels(tmp_path, threads=1)


def test_a_compiler_that_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "odd"
    odd.write_bytes(b"\x7fELF nothing that runs")
    odd.chmod(0o755)
    monkeypatch.setenv("CC", str(odd))
    with pytest.raises(NoKernels, match="odd"):
        load_kernels(tmp_path, threads=1)
