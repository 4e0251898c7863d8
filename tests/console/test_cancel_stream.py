"""`manage.py cancel_stream`."""

from __future__ import annotations

import io
import threading
from datetime import UTC, datetime

import pytest
import redis
from django.core.management import CommandError, call_command

from console.management.commands import cancel_stream as command
from inference.protocol import keys
from records.models import RequestRecord
from tests.console.tools import begin, claim, end, queue

pytestmark = pytest.mark.django_db


def cancel(message_id: str = "msg_1") -> str:
    out = io.StringIO()
    call_command("cancel_stream", message_id, stdout=out)
    return out.getvalue()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "PATIENCE_S", 0.05)


def test_it_works(store: redis.Redis) -> None:
    queue(store, "msg_1")
    name, pen = claim(store)
    events = begin(store, name, pen)

    def obey() -> None:
        while not store.hexists(keys.meta(name), "cancel"):
            pass
        end(store, name, pen, events, "cancelled")

    worker = threading.Thread(target=obey)
    worker.start()
    assert cancel() == "msg_1 is cancelled.\n"
    worker.join()
    assert cancel() == "msg_1 had ended before: cancelled.\n", "asking again changes nothing"


@pytest.mark.usefixtures("impatient")
class TestNotYet:
    def test_one_that_waits_is_asked_to_end(self, store: redis.Redis) -> None:
        queue(store, "msg_1")
        assert "No worker has it yet" in cancel()
        assert store.hget(keys.meta("msg_1"), "cancel") == b"cancelled"
        assert "No worker has it yet" in cancel()

    def test_a_worker_that_has_not_obeyed_is_named(self, store: redis.Redis) -> None:
        queue(store, "msg_1")
        claim(store, worker="slow-1")
        assert "Its worker, slow-1, has not done so yet" in cancel()

    def test_why_it_was_asked_to_end_before_stays(self, store: redis.Redis) -> None:
        queue(store, "msg_1")
        store.hset(keys.meta("msg_1"), "cancel", "client_gone")
        cancel()
        assert store.hget(keys.meta("msg_1"), "cancel") == b"client_gone"


def test_one_that_has_ended_stays_as_it_is(store: redis.Redis) -> None:
    queue(store, "msg_1")
    name, pen = claim(store)
    end(store, name, pen, begin(store, name, pen))
    assert cancel() == "msg_1 had ended before: end_turn.\n"
    assert not store.hexists(keys.meta("msg_1"), "cancel")


def test_one_that_has_expired_had_ended(store: redis.Redis) -> None:
    queue(store, "msg_1")
    store.delete(keys.meta("msg_1"), keys.log("msg_1"))
    assert cancel() == "msg_1 had ended before: its stream has expired.\n"


def test_its_record_tells_how(store: redis.Redis) -> None:
    RequestRecord.objects.create(id="msg_1", created_at=datetime.now(UTC), input_tokens=1, outcome="max_tokens")
    assert cancel() == "msg_1 had ended before: max_tokens.\n"


def test_it_rejects_an_unknown_id(store: redis.Redis) -> None:
    with pytest.raises(CommandError, match="There is no message msg_9") as refusal:
        cancel("msg_9")
    assert refusal.value.returncode == 1
