"""Starting a worker that cannot serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference.__main__ import main
from inference.engines.base import EngineError
from inference.protocol.settings import SettingError, Settings


@pytest.mark.parametrize("error", [EngineError("no room for it"), SettingError("no such device")])
def test_what_cannot_be_served_is_one_line_and_status_2(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(settings: Settings) -> None:
        raise error

    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "tokenizer.json").touch()
    monkeypatch.setenv("SLUICE_MODELS", str(tmp_path))
    monkeypatch.setenv("SLUICE_MODEL", "m")
    monkeypatch.setattr("inference.__main__.create_engine", fail)
    assert main() == 2
    assert [(record.message, record.exc_info) for record in caplog.records] == [(str(error), None)]
