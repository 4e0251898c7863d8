"""Telling the gateways of changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
import redis
from pytest_django import DjangoCaptureOnCommitCallbacks

from accounts.cache import CALLERS
from accounts.changes import STREAM
from accounts.finding import caller_of
from accounts.keys import create_key, end_overlap, resume, revoke, rotate, suspend
from accounts.models import ApiKey
from tests.conftest import Tenant

pytestmark = pytest.mark.django_db


def told(store: redis.Redis) -> list[tuple[str, str]]:
    entries = cast(list[tuple[bytes, dict[bytes, bytes]]], store.xrange(STREAM))
    return [(fields[b"o"].decode(), fields[b"k"].decode()) for _, fields in entries]


def _rename(key: ApiKey) -> None:
    key.name = "renamed"
    key.save(update_fields=["name"])


@pytest.mark.parametrize("change", [revoke, end_overlap, _rename, lambda key: rotate(key, overlap=timedelta(hours=1))])
def test_a_change_of_a_key_is_told(
    store: redis.Redis, alice: Tenant, change: Callable[[ApiKey], Any],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    with django_capture_on_commit_callbacks(execute=True):
        change(alice.key)
    assert told(store) == [(alice.key.organization_id, alice.key.pk)]


@pytest.mark.parametrize("change", [suspend, resume, lambda organization: organization.save()])
def test_a_change_of_an_organisation_is_one_of_all_its_keys(
    store: redis.Redis, alice: Tenant, change: Callable[[Any], Any],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:  # fmt: skip
    with django_capture_on_commit_callbacks(execute=True):
        change(alice.key.organization)
    assert told(store) == [(alice.key.organization_id, "")]


def test_a_new_key_is_no_news(
    store: redis.Redis, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        create_key(name="x")
    assert told(store) == []


def test_this_process_forgets_at_once(alice: Tenant) -> None:
    CALLERS.learn("alice", caller_of(alice.key), since=CALLERS.moment())
    revoke(alice.key)
    assert CALLERS.look("alice") is None


def test_the_change_is_made_though_nobody_can_be_told(
    alice: Tenant,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    nowhere = redis.Redis.from_url("unix:///nowhere", retry=None)
    monkeypatch.setattr("accounts.changes.connection", lambda: nowhere)
    with django_capture_on_commit_callbacks(execute=True):
        revoke(alice.key)
    assert "look for themselves" in caplog.text
