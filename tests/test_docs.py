"""The README names every setting, command, error and outcome that there is."""

from __future__ import annotations

import re
from dataclasses import Field, fields
from typing import Any

import pytest

from common import errors
from inference.protocol.outcomes import OUTCOMES
from inference.protocol.settings import Settings, variable_of
from tests.environment import ROOT

README = (ROOT / "README.md").read_text()
COMMANDS = sorted(path.stem for path in ROOT.glob("platform/*/management/commands/[a-z]*.py"))


def row_of(setting: Field[Any]) -> str:
    """One line of the README's table."""
    default = setting.default
    if setting.name == "home":
        default = "var"
    elif isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, float):
        default = f"{default:g}"
    about = setting.metadata["about"]
    if choices := setting.metadata["choices"]:
        about += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    return f"| `{variable_of(setting.name)}` | {f'`{default}`' if default != '' else ''} | {about} |"


@pytest.mark.parametrize("setting", fields(Settings), ids=lambda setting: setting.name)
def test_every_setting_is_in_the_table(setting: Field[Any]) -> None:
    assert row_of(setting) in README.splitlines()


def test_the_table_has_no_other_settings() -> None:
    known = {variable_of(setting.name) for setting in fields(Settings)}
    assert set(re.findall(r"SLUICE_[A-Z_]+", README)) <= known


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_told_of(command: str) -> None:
    assert f"`manage.py {command}" in README


def test_every_error_is_told_of() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.ApiError)]
    assert len(kinds) > 10
    for kind in kinds:
        assert f"`{kind.kind}`" in README, kind


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_is_told_of(outcome: str) -> None:
    assert f"`{outcome}`" in README


def test_the_changelog_begins_with_this_version() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert version is not None
    assert newest is not None
    assert newest[1] == version[1]
