"""When traces are told, and what settings are refused."""

from __future__ import annotations

import pytest

from inference.protocol import tracing
from inference.protocol.settings import SettingError, Settings

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}


@pytest.mark.parametrize(
    ("otel", "environ", "wanted"),
    [
        ("auto", {}, False),
        ("auto", ENDPOINT, True),
        ("auto", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://collector/v1/traces"}, True),
        ("auto", ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        ("auto", ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, False),
        ("on", {"OTEL_TRACES_EXPORTER": "none"}, False),
        ("auto", ENDPOINT | {"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ("on", {}, True),
        ("off", ENDPOINT, False),
    ],
)
def test_it_works(otel: str, environ: dict[str, str], wanted: bool) -> None:
    assert tracing.is_wanted(Settings(otel=otel), environ) is wanted


@pytest.mark.parametrize(
    ("environ", "hint"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4318"}, "http://localhost:4318"),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"),
    ],
)
def test_what_cannot_be_is_refused(environ: dict[str, str], hint: str) -> None:
    with pytest.raises(SettingError, match=hint):
        tracing.is_wanted(Settings(), environ)
    assert not tracing.is_wanted(Settings(otel="off"), environ)


@pytest.mark.parametrize("missing", ["opentelemetry.nothing", "no_such_package.nothing"])
def test_without_the_extra_it_says_what_to_install(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "NEEDED", missing)
    for otel, environ in (("auto", ENDPOINT), ("on", {})):
        with pytest.raises(SettingError, match="install the extra"):
            tracing.is_wanted(Settings(otel=otel), environ)
    assert not tracing.is_wanted(Settings(), {})


def test_nothing_is_opened_where_nobody_asks() -> None:
    assert tracing.open_spans(Settings(), "service") is None
