"""What becomes of an error in a view: a line in the log with its place, no mail, and nothing of what was said."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from django.core import mail
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.test.utils import override_settings
from django.urls import path

SAID = "what-a-customer-said"


def fail(request: HttpRequest) -> HttpResponse:
    prompt = request.body.decode()
    raise ValueError(f"cannot do {prompt}")


urlpatterns = [path("v1/fail", fail)]
handler500 = "api.errors.server_error"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the handler of all logs writes."""
    (handler,) = (found for found in logging.root.handlers if type(found) is logging.StreamHandler)
    written = io.StringIO()
    stream = handler.setStream(written)
    yield written
    handler.setStream(stream)


@override_settings(ROOT_URLCONF=__name__, ADMINS=["operator@example.org"])
def test_it_works(log: io.StringIO) -> None:
    client = Client(raise_request_exception=False)
    r = client.post(f"/v1/fail?q={SAID}", SAID, content_type="text/plain", headers={"x-api-key": SAID})
    assert r.status_code == 500
    assert r.json()["error"]["type"] == "api_error"
    line = log.getvalue()
    assert f"ERROR django.request: Internal Server Error: /v1/fail [{r.headers['request-id']}]\n" in line
    assert "in fail\n" in line
    assert SAID not in line + r.text
    assert not mail.outbox
