"""`manage.py replay`."""

from __future__ import annotations

import io
from unittest.mock import patch

import pytest
import redis
from django.core.management import CommandError, call_command

from console.live import log
from inference.protocol import keys
from tests.console.tools import begin, claim, end, queue
from tests.inference.tools import entries_of


def replay(*words: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("replay", *words, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


@pytest.fixture
def whole(store: redis.Redis) -> bytes:
    """What the readers of a message that has ended were sent."""
    queue(store, "msg_1")
    name, pen = claim(store)
    end(store, name, pen, begin(store, name, pen))
    return b"".join(fields[b"f"] for _, fields in entries_of(store, keys.log(name)))


def test_it_works(whole: bytes) -> None:
    assert replay("msg_1") == (whole.decode(), "")


def test_a_long_one_is_read_in_slices(whole: bytes) -> None:
    with patch.object(log, "SLICE", 2):
        assert replay("msg_1") == (whole.decode(), "")


def test_it_begins_where_it_is_told(whole: bytes) -> None:
    out, _ = replay("msg_1", "--from", "3")
    assert out == whole.decode()[whole.index(b"id: 3\n") :]


def test_one_that_runs_is_printed_as_far_as_it_is(store: redis.Redis) -> None:
    queue(store, "msg_1")
    begin(store, *claim(store))
    out, err = replay("msg_1")
    assert out.endswith('"text":"Hey"}}\n\n')
    assert "still runs" in err


@pytest.mark.parametrize("first", ["0", "-1", "x", "1.5", ""])
def test_it_rejects_what_is_no_event(whole: bytes, first: str) -> None:
    with pytest.raises(CommandError, match="expected the id of an event"):
        replay("msg_1", f"--from={first}")


def test_it_rejects_an_event_past_the_end(whole: bytes) -> None:
    with pytest.raises(CommandError, match="--from 7: the stream of msg_1 has 6 events"):
        replay("msg_1", "--from", "7")


def test_one_that_has_expired_is_told_from_an_unknown_one(whole: bytes, store: redis.Redis) -> None:
    store.delete(keys.meta("msg_1"), keys.log("msg_1"))
    with pytest.raises(CommandError, match="The stream of msg_1 has expired"):
        replay("msg_1")
    with pytest.raises(CommandError, match="There is no message msg_2"):
        replay("msg_2")
