"""Open files, torch, GPUs, compilers."""

from __future__ import annotations

import json
import resource
import subprocess
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from django.conf import settings
from django.test.utils import override_settings

from console.doctor import machine
from inference.protocol.settings import load

GPU = {"name": "H200", "free": 100e9, "total": 141e9}
ABOUT: dict[str, Any] = {
    "torch": "2.13.0", "gpus": [], "device": "cpu", "problem": "", "compiler": "/usr/bin/cc", "compiler_problem": "",
}  # fmt: skip
OURS = load({})


def judged(about: dict[str, Any], **changes: Any) -> dict[str, str]:
    found = machine.judge_probe(ABOUT | about, replace(OURS, **changes))
    return {finding.name: finding.status for finding in found}


@pytest.mark.parametrize(
    ("most", "status"), [(1_000_000, "ok"), (resource.RLIM_INFINITY, "ok"), (4096, "warn"), (256, "fail")]
)
def test_open_files(most: int, status: str) -> None:
    assert machine.judge_open_files(most).status == status


def test_it_works_on_a_cpu() -> None:
    assert judged({}) == {"torch": "ok", "gpu": "ok", "compiler": "ok"}


def test_a_gpu_needs_no_compiler() -> None:
    assert judged({"gpus": [GPU], "device": "cuda", "compiler_problem": "none"}) == {"torch": "ok", "gpu": "ok"}


def test_a_device_that_is_not_there_fails() -> None:
    assert judged({"device": "", "problem": "SLUICE_DEVICE='cuda': this machine has 0"})["gpu"] == "fail"


@pytest.mark.parametrize(
    ("changes", "status"),
    [({}, "warn"), ({"kernels": "native"}, "fail"), ({"quantize": "int8"}, "fail"), ({"kernels": "torch"}, None)],
)
def test_no_compiler_counts_where_one_is_needed(changes: dict[str, str], status: str | None) -> None:
    assert judged({"compiler_problem": "there is no C compiler"}, **changes).get("compiler") == status


@override_settings(SLUICE=replace(settings.SLUICE, engine="simulated"))
def test_the_simulated_engine_needs_no_torch() -> None:
    (found,) = machine.for_workers()
    assert found.status == "ok"


def test_a_torch_that_does_not_load_fails() -> None:
    done = subprocess.CompletedProcess([], 1, "", "Traceback …\nImportError: no torch\n")
    with patch("subprocess.run", lambda *_, **__: done):
        (found,) = machine.for_workers()
    assert (found.status, found.text) == ("fail", "It does not load: ImportError: no torch")


def test_one_that_hangs_fails() -> None:
    with patch("subprocess.run", side_effect=subprocess.TimeoutExpired("x", 1)):
        (found,) = machine.for_workers()
    assert "does not load within" in found.text


def test_what_the_probe_tells_is_judged() -> None:
    done = subprocess.CompletedProcess([], 0, json.dumps(ABOUT), "")
    with patch("subprocess.run", lambda *_, **__: done):
        assert [finding.name for finding in machine.for_workers()] == ["torch", "gpu", "compiler"]
