"""Whether spans are told to an OpenTelemetry collector. Its own `OTEL_*` variables say to which, and how."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from inference.protocol.settings import SettingError, Settings

if TYPE_CHECKING:
    from inference.protocol.spans import Spans

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
OURS = "http/protobuf"
NEEDED = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


def is_wanted(settings: Settings, environ: Mapping[str, str] = os.environ) -> bool:
    """Say whether spans are told; raise `SettingError` where they should be and cannot."""
    endpoint, url = _first(ENDPOINTS, environ)
    if _is_off(settings, environ) or (settings.otel == "auto" and not url):
        return False
    if url and not url.startswith(("http://", "https://")):
        raise SettingError(f"{endpoint}={url!r}: expected an http:// or https:// URL, as http://localhost:4318.")
    variable, protocol = _first(PROTOCOLS, environ)
    if protocol not in ("", OURS):
        raise SettingError(
            f"{variable}={protocol!r}: expected {OURS}, which collectors take at port 4318, or SLUICE_OTEL=off."
        )
    if not _is_installed():
        name = endpoint if url else "SLUICE_OTEL"
        raise SettingError(f"{name} asks for traces: install the extra `sluice[otel]`, or set SLUICE_OTEL=off.")
    return True


def open_spans(settings: Settings, service: str) -> Spans | None:
    """Return where a process tells its spans, None where it does not."""
    if not is_wanted(settings):
        return None
    from inference.protocol.spans import Spans  # needs the extra

    return Spans(service)


def _is_off(settings: Settings, environ: Mapping[str, str]) -> bool:
    off = {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"}
    said = {name: environ.get(name, "").strip().lower() for name in off}
    return settings.otel == "off" or any(said[name] == word for name, word in off.items())


def _first(variables: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str]:
    found = [(name, environ[name].strip()) for name in variables if environ.get(name, "").strip()]
    return found[0] if found else (variables[-1], "")


def _is_installed() -> bool:
    try:
        return find_spec(NEEDED) is not None
    except ModuleNotFoundError:  # a package that it is in
        return False
