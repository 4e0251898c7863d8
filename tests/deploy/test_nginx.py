"""The configuration of nginx says what the code says. Whether nginx takes it, nginx knows: `nginx -t`."""

from __future__ import annotations

import re

from django.conf import settings

from streaming.paths import OF_GATEWAYS
from tests.environment import ROOT

CONFIGURATION = (ROOT / "deploy" / "nginx" / "sluice.conf").read_text()


def test_the_rule_is_ours() -> None:
    assert f"location ~ ^/{OF_GATEWAYS} {{\n        proxy_pass http://sluice_gateways;" in CONFIGURATION
    assert CONFIGURATION.count("proxy_pass http://sluice_gateways;") == 1


def test_its_limits_are_above_ours() -> None:
    usual, batches = map(int, re.findall(r"client_max_body_size (\d+)m;", CONFIGURATION))
    assert usual > settings.SLUICE.max_body_mb
    assert batches > settings.SLUICE.batch_max_body_mb
    (patience,) = re.findall(r"proxy_read_timeout (\d+)s;", CONFIGURATION)
    assert int(patience) > settings.SLUICE.request_timeout_s


def test_a_gateway_that_is_gone_holds_nobody_up() -> None:
    (connecting,) = re.findall(r"proxy_connect_timeout (\d+)s;", CONFIGURATION)
    (another,) = re.findall(r"proxy_next_upstream_timeout (\d+)s;", CONFIGURATION)
    assert int(connecting) < int(another), "there is time to ask another"
    assert "proxy_next_upstream error timeout http_503 non_idempotent;" in CONFIGURATION


def test_streams_are_not_held_up() -> None:
    assert "proxy_buffering off;" in CONFIGURATION
    assert "proxy_http_version 1.1;" in CONFIGURATION


def test_no_query_is_logged() -> None:
    (line,) = re.findall(r"log_format sluice ([^;]+);", CONFIGURATION)
    assert not re.search(r"\$(request|request_uri|args|query_string|http_referer)\b", line)
    assert re.search(r"error_log \S+ crit;", CONFIGURATION)
