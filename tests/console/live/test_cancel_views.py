"""Cancelling streams in the console."""

from __future__ import annotations

import pytest
import redis
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client

from console.live import cancel_views
from inference.protocol import keys
from tests.conftest import Staff
from tests.console.tools import begin, claim, end

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("two")]

PAGE = "/admin/console/streams/"
CANCEL = f"{PAGE}cancel/"


@pytest.fixture(autouse=True)
def _no_worker_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancel_views, "PATIENCE_S", 0.0)


def cancel(client: Client, *ids: str) -> HttpResponse:
    return client.post(CANCEL, {"message": ids, "confirmed": "yes"})  # type: ignore[return-value]


def told(r: HttpResponse) -> list[str]:
    return [str(message) for message in get_messages(r.wsgi_request)]  # type: ignore[attr-defined]


def reason(store: redis.Redis, message_id: str) -> bytes | None:
    return store.hget(keys.meta(message_id), "cancel")  # type: ignore[return-value]


def test_it_works(admin_client: Client, store: redis.Redis) -> None:
    asked = admin_client.post(CANCEL, {"message": ["msg_alice"]}).content.decode()
    assert "Cancel msg_alice?" in asked
    assert "alpha, key alice" in asked
    assert reason(store, "msg_alice") is None

    r = cancel(admin_client, "msg_alice")
    assert r.headers["location"] == f"{PAGE}msg_alice/"
    assert told(r) == ["The stream msg_alice is asked to end. Whoever has it ends it shortly."]
    assert reason(store, "msg_alice") == b"cancelled"
    assert reason(store, "msg_charlie") is None
    (entry,) = LogEntry.objects.all()
    assert (entry.user.get_username(), entry.object_id) == ("admin", "msg_alice")
    assert entry.get_change_message() == "Cancelled the stream, of alpha, key alice."


def test_several_at_once(admin_client: Client, store: redis.Redis) -> None:
    r = cancel(admin_client, "msg_alice", "msg_charlie", "msg_none")
    assert r.headers["location"] == PAGE
    assert told(r) == ["2 streams are asked to end.", "1 had ended before."]
    assert {reason(store, f"msg_{name}") for name in ("alice", "charlie")} == {b"cancelled"}
    assert LogEntry.objects.count() == 2


def test_a_row_has_a_button_of_its_own(admin_client: Client) -> None:
    asked = admin_client.post(CANCEL, {"message": ["msg_alice"], "only": "msg_charlie"}).content.decode()
    assert "Cancel msg_charlie?" in asked
    assert "msg_alice" not in asked


def test_twice_is_as_once(admin_client: Client, store: redis.Redis) -> None:
    cancel(admin_client, "msg_alice")
    assert told(cancel(admin_client, "msg_alice"))[-1] == "The stream msg_alice was asked to end before (cancelled)."
    assert LogEntry.objects.count() == 1


def test_an_earlier_reason_stays(admin_client: Client, store: redis.Redis) -> None:
    store.hset(keys.meta("msg_alice"), "cancel", "client_gone")
    assert "before (client_gone)" in told(cancel(admin_client, "msg_alice"))[0]
    assert reason(store, "msg_alice") == b"client_gone"


def test_what_has_ended_stays_as_it_is(admin_client: Client, store: redis.Redis) -> None:
    name, pen = claim(store)
    end(store, name, pen, begin(store, name, pen))
    assert told(cancel(admin_client, name)) == [f"The stream {name} had ended before: end_turn."]
    assert not LogEntry.objects.exists()


def test_one_that_nobody_knows(admin_client: Client) -> None:
    r = cancel(admin_client, "msg_none")
    assert r.headers["location"] == PAGE
    assert "nothing of it is left" in told(r)[0]


def test_nothing_selected(admin_client: Client) -> None:
    r = admin_client.post(CANCEL)
    assert told(r) == ["No stream was selected."]  # type: ignore[arg-type]


def test_who_may_only_watch_cancels_nothing(staff: Staff, store: redis.Redis) -> None:
    assert cancel(staff("view_streams"), "msg_alice").status_code == 403
    assert reason(store, "msg_alice") is None


def test_it_needs_the_token_of_a_form(admin_user: object, store: redis.Redis) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)  # type: ignore[arg-type]
    assert cancel(client, "msg_alice").status_code == 403
    assert client.get(CANCEL).status_code == 405
    assert reason(store, "msg_alice") is None


def test_nothing_is_cancelled_without_a_trace(
    admin_client: Client, store: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(LogEntry.objects, "bulk_create", away)
    with pytest.raises(OperationalError):
        cancel(admin_client, "msg_alice")
    assert reason(store, "msg_alice") is None
