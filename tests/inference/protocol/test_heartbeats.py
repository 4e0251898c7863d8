"""What processes tell of themselves."""

from __future__ import annotations

import json
import math

import pytest

from inference.protocol import drains, heartbeats
from inference.protocol.heartbeats import FRESH_S


def test_it_works() -> None:
    rows = {name: json.dumps({"seen_at": seen_at, "model": "m"}).encode() for name, seen_at in ((b"b", 99), (b"a", 10))}
    a, b = heartbeats.read(rows, 100.0)
    assert (a.process, a.age_s, a.fresh) == ("a", 90.0, False)
    assert (b.process, b.age_s, b.fresh) == ("b", 1.0, True)
    assert b.about["model"] == "m"


def test_it_is_fresh_for_some_seconds() -> None:
    (beat,) = heartbeats.read({b"a": b'{"seen_at": 0}'}, FRESH_S)
    assert not beat.fresh


@pytest.mark.parametrize("raw", [b"", b"not JSON", b"{}", b"[]", b'{"seen_at": null}', b"7"])
def test_what_cannot_be_read_is_neither_fresh_nor_old(raw: bytes) -> None:
    (beat,) = heartbeats.read({b"a": raw}, 100.0)
    assert math.isnan(beat.age_s)
    assert not beat.fresh
    assert not beat.age_s > FRESH_S
    assert beat.about == {}


def test_versions_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    about = heartbeats.about_process(1.0)
    monkeypatch.setattr(heartbeats, "version", lambda _: pytest.fail("each beat reads the file"))
    assert heartbeats.about_process(1.0) == about


def test_a_note_survives_the_heartbeat() -> None:
    """What is asked for has the time as JSON gave it back."""
    started_at = heartbeats.about_process(1764525600.123456789)["started_at"]
    assert drains.note(json.loads(json.dumps(started_at))) == drains.note(started_at)
