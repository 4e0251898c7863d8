"""Folders, room, models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from django.conf import settings
from django.test.utils import override_settings

from console.doctor import folders


@pytest.fixture
def home(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


class TestHome:
    def test_it_works(self, home: Path) -> None:
        assert folders.judge_home(home).status == "ok"

    def test_one_that_is_open_to_others_is_told_of(self, home: Path) -> None:
        home.chmod(0o755)
        found = folders.judge_home(home)
        assert (found.status, found.advice) == ("warn", f"Run: chmod 700 {home}")

    def test_one_that_is_not_there_fails(self, home: Path) -> None:
        assert folders.judge_home(home / "nowhere").status == "fail"

    def test_one_that_cannot_be_written_fails(self, home: Path) -> None:
        with patch("os.access", lambda *_: False):
            assert "cannot be written" in folders.judge_home(home).text


class TestModel:
    def test_it_works(self, home: Path) -> None:
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (home / settings.SLUICE.model).mkdir(exist_ok=True)
            (home / settings.SLUICE.model / name).touch()
        with override_settings(SLUICE=replace(settings.SLUICE, models=str(home))):
            (found,) = folders.model()
        assert found.status == "ok"

    def test_what_it_lacks_is_named(self, home: Path) -> None:
        (home / "mine").mkdir()
        (home / "mine" / "config.json").touch()
        with override_settings(SLUICE=replace(settings.SLUICE, models=str(home), model="mine")):
            (found,) = folders.model()
        assert (found.status, found.advice) == ("fail", "Run: manage.py fetch_model OWNER/mine")
        assert "lacks tokenizer.json, model.safetensors" in found.text

    def test_a_folder_that_is_not_there_fails(self, home: Path) -> None:
        with override_settings(SLUICE=replace(settings.SLUICE, models=str(home / "nowhere"))):
            (found,) = folders.model()
        assert (found.status, found.advice) == ("fail", "Run: manage.py fetch_model")


@pytest.mark.parametrize(("free", "status"), [(20e9, "ok"), (3e9, "warn"), (0.5e9, "fail")])
def test_room_on_a_disk(home: Path, free: float, status: str) -> None:
    assert folders.judge_disk(home, free=int(free), total=int(100e9)).status == status


def test_one_disk_is_looked_at_once() -> None:
    assert len(list(folders.disk())) <= 2
