"""From a body to a batch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from batches.creating import MOST_REQUESTS, parse_batch
from batches.models import BatchRequest
from common.errors import InvalidRequest, RateLimited
from tests.batches.tools import body_of, counts_of, ids_of, make_batch, params
from tests.conftest import Tenant


def test_it_works(alice: Tenant) -> None:
    batch = make_batch(alice, params("One."), params("Two."))
    assert (batch.status, batch.total, counts_of(batch)) == ("in_progress", 2, {"processing": 2})
    assert (batch.expires_at - batch.created_at).total_seconds() == 86_400
    first = BatchRequest.objects.get(pk=ids_of(batch)[0])
    assert (first.number, first.custom_id, json.loads(bytes(first.params))) == (0, "r0", params("One."))
    assert first.pk.startswith("msg_")


def test_what_is_wrong_within_a_request_is_for_later(alice: Tenant) -> None:
    assert make_batch(alice, {"no": "such field"}).total == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "requests: this field is required."),
        ({"requests": []}, "requests: expected `array` of length >= 1."),
        ({"requests": "all"}, "requests: expected `array`, got `str`."),
        ({"requests": [{"custom_id": "a"}]}, "requests[0].params: this field is required."),
        ({"requests": [{"params": {}}]}, "requests[0].custom_id: this field is required."),
        ({"requests": [{"custom_id": "a", "params": {}, "more": 1}]}, "requests[0].more: no such field."),
        ({"requests": [{"custom_id": "a", "params": []}]}, "requests[0].params: expected an object."),
        ({"requests": [{"custom_id": 5, "params": {}}]}, "requests[0].custom_id: expected `str`, got `int`."),
        ({"more": 1}, "more: no such field."),
        ([], "The body: expected `object`, got `array`."),
    ],
)
def test_it_rejects_a_wrong_form_by_name(body: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_batch(json.dumps(body).encode())
    assert caught.value.message == message


@pytest.mark.parametrize("custom_id", ["", "a b", "x" * 65, "é", "a\n", "a/b"])
def test_it_rejects_a_custom_id_of_another_form(custom_id: str) -> None:
    requests: list[Any] = [{"custom_id": "ok", "params": {}}, {"custom_id": custom_id, "params": {}}]
    with pytest.raises(InvalidRequest, match=r"^requests\[1\]\.custom_id: expected `str` matching"):
        parse_batch(json.dumps({"requests": requests}).encode())


def test_it_rejects_a_custom_id_that_comes_twice() -> None:
    requests: list[Any] = [{"custom_id": name, "params": {}} for name in ("a", "b", "a")]
    with pytest.raises(InvalidRequest, match=r"^requests\[2\]\.custom_id: requests\[0\] has the same"):
        parse_batch(json.dumps({"requests": requests}).encode())


def test_it_rejects_more_than_it_takes() -> None:
    with pytest.raises(InvalidRequest, match=r"^requests: expected `array` of length <= 10000"):
        parse_batch(body_of(*[{}] * (MOST_REQUESTS + 1)))


def test_it_rejects_a_batch_while_too_many_requests_wait(alice: Tenant, charlie: Tenant) -> None:
    with override_settings(SLUICE=replace(settings.SLUICE, batch_queue_limit=3)):
        make_batch(alice, params("One."), params("Two."))
        with pytest.raises(RateLimited, match=r"^requests: 2 requests of batches wait already, and 3 may") as caught:
            make_batch(alice, params("Three."), params("Four."))
        assert caught.value.headers["retry-after"] == "60"
        make_batch(alice, params("Three."))
        make_batch(charlie, params("One."), params("Two."))


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"requests":[{"custom_id":"a","params":{"x":tru}}]}'])
def test_it_rejects_what_is_no_json(raw: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"^The body is not valid JSON"):
        parse_batch(raw)
