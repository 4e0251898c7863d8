"""The table of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from inference.protocol.settings import SettingError, load, unknown_variables, variable_of


def test_it_works() -> None:
    settings = load({"SLUICE_HOME": "/tmp/a", "SLUICE_HEARTBEAT_S": "2.5", "SLUICE_DEBUG": "yes"})
    assert (settings.home_path, settings.heartbeat_s, settings.debug) == (Path("/tmp/a"), 2.5, True)
    assert settings.models_path == Path("/tmp/a/models")


def test_nothing_needs_to_be_set() -> None:
    assert load({}).engine == "transformers"


def test_redis_is_the_embedded_one_unless_named(tmp_path: Path) -> None:
    assert load({"SLUICE_HOME": str(tmp_path)}).redis == f"unix://{tmp_path}/redis/redis.sock"
    assert load({"REDIS_URL": "redis://elsewhere/1"}).redis == "redis://elsewhere/1"


def test_the_embedded_redis_may_say_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "url").write_text("redis://127.0.0.1:7001\n")
    assert load({"SLUICE_HOME": str(tmp_path)}).redis == "redis://127.0.0.1:7001"


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("SLUICE_DRAIN_S", "soon", "a number"),
        ("SLUICE_DRAIN_S", "nan", "a number"),
        ("SLUICE_DRAIN_S", "-1", "at least 0"),
        ("SLUICE_MAX_BATCH", "2.5", "a whole number"),
        ("SLUICE_MAX_BATCH", "100000", "at most 1024"),
        ("SLUICE_DEBUG", "maybe", "true or false"),
        ("SLUICE_ENGINE", "magic", "one of transformers, vllm, simulated"),
    ],
)
def test_it_rejects_what_will_not_do(variable: str, value: str, expected: str) -> None:
    with pytest.raises(SettingError, match=rf"{variable}='{value}': expected {expected}"):
        load({variable: value})


def test_it_tells_of_variables_that_set_nothing() -> None:
    assert unknown_variables({"SLUICE_HEARTBEATS": "1", "SLUICE_HOME": "x", "HOME": "y"}) == ["SLUICE_HEARTBEATS"]


def test_some_variables_have_the_worlds_names() -> None:
    assert [variable_of(name) for name in ("redis_url", "database_url", "broker_url")] == [
        "REDIS_URL", "DATABASE_URL", "SLUICE_BROKER_URL",
    ]  # fmt: skip
