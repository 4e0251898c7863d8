"""From the minutes in Redis to rows: each thing once, whatever happens in between."""

from __future__ import annotations

import logging
from itertools import product

import pytest
import redis
from django.db import OperationalError

from inference.protocol import keys
from inference.protocol.minutes import ANSWERS, GOOD, OUTPUT, STORED_S, TOKENS, TTFT
from inference.protocol.sketches import Sketch
from records.merging import be_alone
from slo import rolling
from slo.models import Rollup
from slo.rolling import roll_up
from slo.sums import Sums, decode_sums
from slo.windows import HOUR_S, MINUTE_S, QUARTER_S, STEPS_S
from tests.slo.conftest import Counting

pytestmark = pytest.mark.django_db


def sums_of(step_s: int, model: str = "", organization: str = "") -> list[Sums]:
    rows = Rollup.objects.filter(step_s=step_s, model=model, organization=organization).order_by("start")
    return [decode_sums(row.sums) for row in rows]


def good(step_s: int, model: str = "", organization: str = "") -> int:
    return sum(sums.answers[GOOD] for sums in sums_of(step_s, model, organization))


def test_it_works(store: redis.Redis, counting: Counting) -> None:
    for model, organization in (("m", "o"), ("m", "p"), ("n", "o")):
        counts = counting.of(model, organization)
        counts.observe(TTFT, [0.1])
        counts.add(TOKENS, OUTPUT, 7)
        counts.add(ANSWERS, GOOD)
    counting.of("", "").add(ANSWERS, "bad:api_error")
    counting.send()

    assert roll_up(store) == 1
    for step_s in STEPS_S:
        (everything,) = sums_of(step_s)
        assert everything.answers == {GOOD: 3, "bad:api_error": 1}
        assert everything.tokens == {OUTPUT: 21}
        assert Sketch(everything.ttft).count == 3
        assert good(step_s, "m") == good(step_s, "", "o") == 2
        assert good(step_s, "m", "o") == good(step_s, "n", "o") == good(step_s, "", "p") == 1
        assert not Rollup.objects.exclude(start=counting.now // step_s * step_s).filter(step_s=step_s)
    assert not store.exists(keys.MINUTES_CHANGED)
    assert store.ttl(keys.minute(counting.now // MINUTE_S)) <= STORED_S
    assert roll_up(store) == 0


def test_what_comes_later_is_added(store: redis.Redis, counting: Counting) -> None:
    for _ in range(3):
        for ago_s in (0, 60, 1000):
            counting.of(ago_s=ago_s).add(ANSWERS, GOOD)
        counting.send()
        roll_up(store)
    assert good(MINUTE_S) == good(QUARTER_S) == good(HOUR_S) == good(HOUR_S, "m", "o") == 9
    assert len(sums_of(MINUTE_S)) == 3


def test_storing_again_changes_nothing(store: redis.Redis, counting: Counting) -> None:
    counting.of().add(ANSWERS, GOOD)
    counting.send()
    roll_up(store)
    before = list(Rollup.objects.order_by("pk").values())
    store.hset(keys.MINUTES_CHANGED, str(counting.now // MINUTE_S), 1)
    assert roll_up(store) == 1
    assert list(Rollup.objects.order_by("pk").values()) == before


def test_it_waits_for_a_database_that_is_away(
    store: redis.Redis, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting.of().add(ANSWERS, GOOD)
    counting.send()
    with monkeypatch.context() as patch:

        def away(*_: object) -> None:
            raise OperationalError("no")

        patch.setattr(rolling, "be_alone", away)
        with pytest.raises(OperationalError):
            roll_up(store)
    counting.of().add(ANSWERS, GOOD)
    counting.send()
    assert roll_up(store) == 1
    assert good(HOUR_S) == 2


def test_what_comes_while_it_is_stored_is_stored_next(
    store: redis.Redis, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting.of().add(ANSWERS, GOOD)
    counting.send()
    gather = rolling._gathered

    def gather_late(step_s: int, starts: range) -> rolling.Groups:
        if step_s == MINUTE_S and len(starts) == QUARTER_S:
            counting.of().add(ANSWERS, GOOD)
            counting.send()
        return gather(step_s, starts)

    with monkeypatch.context() as patch:
        patch.setattr(rolling, "_gathered", gather_late)
        roll_up(store)
    assert good(HOUR_S) == 1
    assert roll_up(store) == 1
    assert good(HOUR_S) == 2


def test_coarser_steps_are_the_sum_of_the_finer(store: redis.Redis, counting: Counting) -> None:
    for ago_s, model in product(range(0, 3500, 300), ("m", "n")):
        counts = counting.of(model, ago_s=ago_s)
        counts.observe(TTFT, [0.01 * (ago_s + 1)])
        counts.stage("queue", 1.5)
    counting.send()
    roll_up(store)
    totals = []
    for step_s in STEPS_S:
        total = Sums()
        for sums in sums_of(step_s):
            total.merge(sums)
        totals.append(total)
    assert all(total == totals[0] for total in totals)
    assert totals[0].stages_us == {"queue": 24 * 1500}


def test_what_cannot_be_read_does_not_hold_up_the_rest(
    store: redis.Redis, counting: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    for ago_s in (60, 0):
        counting.of(ago_s=ago_s).add(ANSWERS, GOOD)
    counting.send()
    store.hset(keys.minute(counting.now // MINUTE_S - 1), "m|bad", '{"answers":{"good":"many"}}')
    assert roll_up(store) == 2
    assert good(MINUTE_S) == good(MINUTE_S, "m", "o") == 2
    assert "cannot be read" in caplog.text
    assert not store.exists(keys.MINUTES_CHANGED)


def test_redis_is_read_before_the_database_is_held(
    store: redis.Redis, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting.of().add(ANSWERS, GOOD)
    counting.send()
    order: list[str] = []
    read = rolling._groups_of

    def note_read(client: redis.Redis, minute: int) -> rolling.Groups:
        order.append("read")
        return read(client, minute)

    def note_hold(lock: int) -> None:
        order.append("hold")
        be_alone(lock)

    monkeypatch.setattr(rolling, "_groups_of", note_read)
    monkeypatch.setattr(rolling, "be_alone", note_hold)
    roll_up(store)
    assert order == ["read", "hold"]


def test_a_redis_that_lost_its_tail_takes_nothing_away(store: redis.Redis, counting: Counting) -> None:
    minute = keys.minute(counting.now // MINUTE_S)
    counting.of("m", "o").add(ANSWERS, GOOD, 2)
    counting.send()
    before = store.dump(minute)
    assert before is not None
    counting.of("m", "o").add(ANSWERS, GOOD, 5)
    counting.of("m", "p").observe(TTFT, [0.1])
    counting.send()
    roll_up(store)

    store.restore(minute, 0, before, replace=True)
    counting.of("m", "o").add(ANSWERS, "bad:api_error")
    counting.send()
    assert [roll_up(store), roll_up(store)] == [1, 0]
    for step_s in STEPS_S:
        for group in (("m", "o"), ("m", ""), ("", "o"), ("", "")):
            (sums,) = sums_of(step_s, *group)
            assert sums.answers == {GOOD: 7, "bad:api_error": 1}
        (sums,) = sums_of(step_s, "m", "p")
        assert Sketch(sums.ttft).count == 1


def test_what_was_read_earlier_and_is_written_later_takes_nothing_away(
    store: redis.Redis, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting.of().add(ANSWERS, GOOD)
    counting.send()
    read = rolling._groups_of

    def be_overtaken(client: redis.Redis, minute: int) -> rolling.Groups:
        groups = read(client, minute)
        monkeypatch.setattr(rolling, "_groups_of", read)
        counting.of().add(ANSWERS, GOOD)
        counting.send()
        roll_up(store)
        return groups

    monkeypatch.setattr(rolling, "_groups_of", be_overtaken)
    roll_up(store)
    assert good(MINUTE_S) == good(HOUR_S) == 2
    assert not store.exists(keys.MINUTES_CHANGED)


def test_what_has_expired_is_told(store: redis.Redis, counting: Counting, caplog: pytest.LogCaptureFixture) -> None:
    counting.of().add(ANSWERS, GOOD)
    counting.send()
    store.delete(keys.minute(counting.now // MINUTE_S))
    with caplog.at_level(logging.WARNING):
        roll_up(store)
    assert "expired" in caplog.text
    assert not store.exists(keys.MINUTES_CHANGED)
