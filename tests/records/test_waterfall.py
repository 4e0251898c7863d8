"""The waterfall of one request."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from records.models import RequestRecord
from records.waterfall import Waterfall, waterfall_of
from tests.conftest import Tenant

CAME = timezone.now()
TIMES: dict[str, Any] = {
    "stages": {"enqueue_ms": 2.0, "auth_ms": 1.0, "validation_ms": 0.5, "tokenizing_ms": 1.5, "admission_ms": 1.0},
    "queue_ms": 10.0, "prefill_ms": 30.0, "generation_ms": 100.0, "attempts": 1, "outcome": "end_turn",
    "ttft_ms": 50.0, "stream_ms": 72.0, "total_ms": 125.0, "readers": {"req_1": [0.0, 100, 0]},
}  # fmt: skip


def a_record(**facts: Any) -> RequestRecord:
    usual = {"id": "msg_1", "model": "m", "created_at": CAME, "input_tokens": 3}
    return RequestRecord(**usual | TIMES | facts)


def drawn(**facts: Any) -> Waterfall:
    waterfall = waterfall_of(a_record(**facts))
    assert waterfall
    return waterfall


def spans(waterfall: Waterfall) -> dict[str, tuple[float, float]]:
    return {bar.name: (round(bar.start, 3), round(bar.end, 3)) for bar in waterfall.bars}


def test_it_works() -> None:
    waterfall = drawn()
    assert spans(waterfall) == {
        "auth": (0, 1), "validation": (1, 1.5), "tokenizing": (1.5, 3), "admission": (3, 4), "enqueue": (4, 6),
        "queue": (6, 16), "prefill": (16, 46), "decode": (46, 116), "to the client": (46, 50),
        "waits": (0, 50), "reads": (50, 122),
    }  # fmt: skip
    assert (waterfall.ttft, waterfall.end, waterfall.ttft_at) == (50, 125, 40)
    assert len(waterfall.notes) == 1, "of the clocks"


def test_the_wait_for_a_batch_comes_before_the_prefill() -> None:
    found = spans(drawn(batch_wait_ms=8.0))
    assert (found["batch wait"], found["prefill"]) == ((16, 24), (24, 46))


def test_what_a_proxy_had_is_noted() -> None:
    waterfall = drawn(stages={"proxy_ms": 12.5, "auth_ms": 1.0})
    assert spans(waterfall)["auth"] == (0, 1)
    assert "A proxy had it for 12.5 ms before, by the clock of its machine." in waterfall.notes


def test_every_bar_can_be_seen() -> None:
    assert all(place >= 0 and width >= 0.3 and place + width <= 100.01 for _, place, width in drawn().rows)


def test_stages_of_other_versions_come_last() -> None:
    names = list(spans(drawn(stages={"parsing_ms": 1.0, "auth_ms": 1.0})))
    assert names[:2] == ["auth", "parsing"]


def test_checks_are_sums() -> None:
    waterfall = drawn(checks={"toxicity": 3.5, "patterns": 0.5})
    assert [bar.name for bar in waterfall.bars if bar.is_sum] == ["check patterns", "check toxicity"]
    assert any("sum of many moments" in note for note in waterfall.notes)


def test_what_safety_held_back_comes_before_the_writing() -> None:
    found = spans(drawn(held_ms=3.0))
    assert (found["held by safety"], found["to the client"]) == ((46, 49), (49, 50))


def test_the_last_of_several_attempts_is_placed_by_its_end() -> None:
    waterfall = drawn(attempts=2, finished_at=CAME + timedelta(milliseconds=500))
    found = spans(waterfall)
    assert (found["earlier attempts"], found["prefill"]) == ((16, 400), (400, 430))
    assert any("2 attempts" in note for note in waterfall.notes)


def test_the_stages_of_a_reader_begin_when_it_came() -> None:
    waterfall = drawn(stages={"auth_ms": 1.0}, readers={"req_2": [40.0, 1, 0], "req_1": [5.0, 1, 0]})
    found = spans(waterfall)
    assert (found["auth"], found["queue"]) == ((5, 6), (0, 10))
    assert any("5 ms later: the gateway" in note for note in waterfall.notes)


def test_no_worker_took_it() -> None:
    waterfall = drawn(attempts=0, outcome="timeout", prefill_ms=None, generation_ms=0.0, ttft_ms=None, stream_ms=None)
    assert list(spans(waterfall))[-1] == "queue"
    assert "No worker took it." in waterfall.notes


def test_no_token_was_made() -> None:
    waterfall = drawn(prefill_ms=None, ttft_ms=None, stream_ms=None, outcome="oom")
    assert spans(waterfall)["prefill"] == (16, 116)
    assert "decode" not in spans(waterfall)


def test_nobody_has_read_it() -> None:
    unread: dict[str, Any] = {"stages": {}, "ttft_ms": None, "stream_ms": None, "total_ms": None, "readers": {}}
    waterfall = drawn(**unread)
    assert list(spans(waterfall)) == ["queue", "prefill", "decode"]
    assert waterfall.ttft_at is None
    assert "Nobody has read it" in waterfall.notes[0]


def test_it_is_not_settled() -> None:
    unsettled = {"outcome": "", "queue_ms": None, "prefill_ms": None, "generation_ms": None, "attempts": 0}
    waterfall = drawn(**unsettled)
    assert "queue" not in spans(waterfall)
    assert "not been settled" in waterfall.notes[0]


def test_nothing_is_known() -> None:
    record = RequestRecord(id="msg_1", model="m", created_at=CAME, input_tokens=3)
    assert waterfall_of(record) is None


@pytest.mark.django_db
def test_the_page_of_a_record_shows_it(admin_client: Client, alice: Tenant) -> None:
    record = a_record(organization=alice.key.organization, key=alice.key)
    record.save(force_insert=True)
    page = admin_client.get("/admin/records/requestrecord/msg_1/change/").content.decode()
    assert "Where its time went" in page
    assert page.count('<svg viewBox="0 0 100 10"') == 11
    assert 'style="' not in page.split("Where its time went")[1].split("</section>")[0]


@pytest.mark.django_db
def test_the_page_of_a_record_that_knows_nothing(admin_client: Client, alice: Tenant) -> None:
    RequestRecord.objects.create(id="msg_1", model="m", created_at=CAME, input_tokens=3)
    page = admin_client.get("/admin/records/requestrecord/msg_1/change/").content.decode()
    assert "Nothing is known of its times yet." in page
