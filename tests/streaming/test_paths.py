"""The rule by which a proxy splits paths: gateways' here, all others there."""

from __future__ import annotations

import re

import pytest
from django.urls import Resolver404, resolve
from django.urls.resolvers import URLPattern

from api.urls import urlpatterns as api_patterns
from streaming.gateway import Gateway
from streaming.paths import METRICS, OF_GATEWAYS
from streaming.routes import routes

OF_EACH_PROCESS = {"healthz", "readyz"}


def example(route: URLPattern) -> str:
    return re.sub(r"<\w+:\w+>", "some", str(route.pattern))


async def test_all_of_a_gateways_paths_are_its_own(gateway: Gateway) -> None:
    paths = {example(route) for route in routes(gateway)}
    assert {path for path in paths if not re.match(f"{OF_GATEWAYS}|{METRICS}", path)} == OF_EACH_PROCESS


def test_none_of_djangos_is() -> None:
    paths = ["v1/" + example(route) for route in api_patterns]
    assert "v1/messages/batches/some/results" in paths
    assert [path for path in paths if re.match(OF_GATEWAYS, path)] == []


@pytest.mark.parametrize(
    "path", ["v1/messages", "v1/messages/count_tokens", "v1/streams/some/message", "v1/models/a/b"]
)
def test_django_has_nothing_there(path: str) -> None:
    assert re.match(OF_GATEWAYS, path)
    with pytest.raises(Resolver404):
        resolve(f"/{path}")


@pytest.mark.parametrize("path", ["v1/messages/", "v1/messages/batches", "v1/modelsx", "v1/chat/other", "a/v1/models"])
def test_others_are_for_the_web(path: str) -> None:
    assert not re.match(OF_GATEWAYS, path)
