"""Python, packages, settings, the secret key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from django.conf import settings
from django.test.utils import override_settings

from console.doctor import installation
from console.doctor.findings import Finding
from inference.protocol.settings import Settings


def only(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def test_what_is_here_will_do() -> None:
    assert only(list(installation.python())).status == "ok"
    assert only(list(installation.packages())).status == "ok"
    assert only(list(installation.configuration())).status == "ok"
    assert only(list(installation.secret_key())).status == "ok"


def test_an_old_python_fails() -> None:
    with patch("sys.version_info", (3, 10, 1)):
        found = only(list(installation.python()))
    assert (found.status, found.text) == ("fail", "3.10.1 is too old.")


@pytest.mark.parametrize(
    ("required", "text"),
    [
        ("no-such-package-here>=1", "no-such-package-here is missing."),
        ("Django>=99", "not >=99"),
    ],
)
def test_a_package_that_is_missing_or_another_fails(required: str, text: str) -> None:
    found = only(list(installation.packages([required, "redis>=6"])))
    assert found.status == "fail"
    assert text in found.text
    assert "pip install" in found.advice


def test_extras_that_nothing_asks_for_may_be_missing() -> None:
    assert only(list(installation.packages(['no-such-package-here; extra == "dev"']))).status == "ok"


@override_settings(SLUICE=replace(settings.SLUICE, database_url="postgres://h/d"))
def test_those_that_a_setting_asks_for_may_not() -> None:
    found = only(list(installation.packages(['no-such-package-here; extra == "postgres"'])))
    assert found.status == "fail"


def test_a_variable_that_sets_nothing_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_HEARTBEAT", "3")
    found = only(list(installation.configuration()))
    assert found.status == "warn"
    assert "SLUICE_HEARTBEAT is set" in found.text


@override_settings(DEBUG=True, ALLOWED_HOSTS=["*"])
def test_what_is_open_to_everybody_is_told_of() -> None:
    assert [finding.status for finding in installation.configuration()] == ["warn", "warn"]


class TestSecretKey:
    @pytest.fixture
    def ours(self, tmp_path: Path) -> Settings:
        (tmp_path / "secret_key").write_text("x" * 60)
        (tmp_path / "secret_key").chmod(0o600)
        return replace(settings.SLUICE, home=str(tmp_path), secret_key="")

    def test_it_works(self, ours: Settings) -> None:
        assert installation.judge_secret_key(ours).status == "ok"

    def test_one_that_others_can_read_fails(self, ours: Settings) -> None:
        (ours.home_path / "secret_key").chmod(0o640)
        found = installation.judge_secret_key(ours)
        assert found.status == "fail"
        assert found.advice.startswith("Run: chmod 600")

    def test_one_that_has_gone_fails(self, ours: Settings) -> None:
        (ours.home_path / "secret_key").unlink()
        assert installation.judge_secret_key(ours).status == "fail"

    def test_a_short_one_is_told_of_and_never_shown(self, ours: Settings) -> None:
        (ours.home_path / "secret_key").write_text("hunter2")
        for found in map(installation.judge_secret_key, (ours, replace(ours, secret_key="hunter2"))):
            assert found.status == "warn"
            assert "hunter2" not in found.text + found.advice
