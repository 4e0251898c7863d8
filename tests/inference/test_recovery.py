"""A Redis that comes back without its last seconds: what a worker wrote in them it writes again."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from inference.detokenizer import Vocabulary
from inference.engines.base import StepOutput
from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.progress import Entry
from inference.protocol.reports import Trigger
from tests.inference.tools import MODEL, Bench, a_request, enqueue, entries_of, roll_back, snapshot

TRIGGER = Trigger(
    message="msg_1", organization="org_1", key="key_1", model=MODEL, policy="p", check="patterns",
    category="secrets.jwt", action="flag", side="output", position=0, score=1.0, span="0a", found_at=1.0,
)  # fmt: skip
WORDS = ["the", "tide", "came", "in", "over", "the", "stones", "and", "took", "the", "boat", "away"]


@pytest.fixture
def ids(words: Tokenizer) -> list[int]:
    """Token ids of a text, one word each."""
    return [words.encode(" " + word).ids[0] for word in WORDS]


def token(token_id: int, **more: Any) -> StepOutput:
    return StepOutput("msg_1", (token_id,), **more)


def log_of(bench: Bench) -> list[Entry]:
    return entries_of(bench.store, keys.log("msg_1"))


def text_of(bench: Bench) -> str:
    return "".join(e["delta"]["text"] for e in bench.events() if e["type"] == "content_block_delta")


def begin(bench: Bench, *token_ids: int) -> None:
    enqueue(bench.store, a_request())
    bench.turn()
    for token_id in token_ids:
        bench.turn(token(token_id))


def claim_at_once(bench: Bench) -> None:
    """Let the time be over that a worker waits after an outage."""
    bench.turn()
    bench.worker._claim_due = 0.0
    bench.turn()


def test_it_works(bench: Bench, ids: list[int]) -> None:
    begin(bench, ids[0])
    before = snapshot(bench.store)
    bench.turn(token(ids[1]))
    bench.turn(token(ids[2]))
    seen = log_of(bench)
    roll_back(bench.store, before)
    bench.turn(token(ids[3], finish="max_tokens"))
    assert log_of(bench)[: len(seen)] == seen, "under the ids they had"
    assert text_of(bench) == " the tide came in"
    assert [(s.outcome, s.output_tokens, s.attempts) for s in bench.settlements()] == [("max_tokens", 4, 1)]
    assert bench.is_forgotten()


def test_what_is_written_again_is_announced(bench: Bench, ids: list[int]) -> None:
    begin(bench)
    before = snapshot(bench.store)
    bench.turn(token(ids[0]))
    listener: Any = bench.store.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]  # redis-py's gap
    listener.subscribe(keys.channel("msg_1"))
    listener.get_message(timeout=5)
    roll_back(bench.store, before)
    bench.turn(token(ids[1]))
    message = listener.get_message(timeout=5)
    assert message["data"].startswith(b"2 4 2 0\n")
    listener.close()


def test_one_that_releases_nothing_learns_of_it_too(bench: Bench, ids: list[int]) -> None:
    begin(bench)
    before = snapshot(bench.store)
    bench.turn(token(ids[0]))
    seen = log_of(bench)
    roll_back(bench.store, before)
    bench.worker._running["msg_1"].ask_now()
    bench.turn()
    assert log_of(bench) == seen


def test_a_claim_that_was_lost_is_made_again(bench: Bench, ids: list[int]) -> None:
    enqueue(bench.store, a_request())
    before = snapshot(bench.store)
    bench.turn()
    bench.turn(token(ids[0]))
    roll_back(bench.store, before)
    bench.turn(token(ids[1]))
    assert bench.submitted == ["msg_1"], "it is not claimed a second time"
    assert bench.engine.cancelled == []
    bench.turn(token(ids[2], finish="max_tokens"))
    assert text_of(bench) == " the tide came"
    assert [(s.outcome, s.attempts) for s in bench.settlements()] == [("max_tokens", 1)]
    assert bench.is_forgotten()


def test_a_log_that_was_lost_is_opened_again(bench: Bench, ids: list[int]) -> None:
    nothing = snapshot(bench.store)
    begin(bench, ids[0])
    seen = log_of(bench)
    roll_back(bench.store, nothing)
    bench.turn(token(ids[1]))
    assert log_of(bench)[: len(seen)] == seen
    assert bench.store.zscore(keys.LOGS, "msg_1"), "the janitor knows of it"
    assert bench.store.get(keys.owner("msg_1")) == b"org_1"
    assert bench.store.hmget(keys.meta("msg_1"), "organization", "key", "model") == [b"org_1", b"key_1", b"m"]
    bench.turn(token(ids[2], finish="max_tokens"))
    assert text_of(bench) == " the tide came"
    assert [(s.outcome, s.output_tokens) for s in bench.settlements()] == [("max_tokens", 3)]
    assert bench.is_forgotten()


@pytest.mark.parametrize("kept", ["nothing", "queued", "claimed", "half", "ended"])
def test_what_ended_shortly_before_is_ended_and_settled_again(bench: Bench, ids: list[int], kept: str) -> None:
    before = {"nothing": snapshot(bench.store)}
    enqueue(bench.store, a_request())
    before["queued"] = snapshot(bench.store)
    bench.turn()
    before["claimed"] = snapshot(bench.store)
    bench.turn(token(ids[0]))
    before["half"] = snapshot(bench.store)
    bench.turn(token(ids[1], finish="max_tokens"))
    before["ended"] = snapshot(bench.store)
    seen, settled = log_of(bench), bench.settlements()
    roll_back(bench.store, before[kept])
    for _ in range(3):
        bench.turn()
    assert log_of(bench)[1:] == seen[1:]
    told = {settlement.encode() for settlement in bench.settlements()}
    assert told == {settlement.encode() for settlement in settled}, "told once more, maybe, and the same"
    assert bench.submitted == ["msg_1"]
    assert bench.is_forgotten()


def end_and_lose(bench: Bench, ids: list[int], monkeypatch: pytest.MonkeyPatch, *, idle: bool) -> None:
    """Let a message end, time pass, and Redis lose what came after the first token: the worker idle, or waiting."""
    begin(bench, ids[0])
    before = snapshot(bench.store)
    bench.turn(token(ids[1], finish="max_tokens"))
    monkeypatch.setattr("inference.recovery.KEPT_S", -1)
    if idle:
        bench.turn()
    roll_back(bench.store, before)
    bench.worker._broker.outages += not idle


def test_what_ended_long_before_is_forgotten_even_by_one_who_is_idle(
    bench: Bench, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    end_and_lose(bench, ids, monkeypatch, idle=True)
    for _ in range(3):
        bench.turn()
    assert bench.settlements() == []
    assert text_of(bench) == " the"


def test_what_ended_shortly_before_is_not_forgotten_in_a_long_outage(
    bench: Bench, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    end_and_lose(bench, ids, monkeypatch, idle=False)
    for _ in range(3):
        bench.turn()
    assert set(bench.outcomes) == {"max_tokens"}
    assert text_of(bench) == " the tide"


def test_a_settlement_without_its_claim_is_made_all_the_same(bench: Bench, ids: list[int]) -> None:
    begin(bench, ids[0])
    bench.store.delete(keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))
    bench.turn(token(ids[1], finish="max_tokens"))
    assert bench.outcomes == ["max_tokens"]
    assert bench.is_forgotten()


def test_an_heir_that_was_quicker_has_it(bench: Bench, ids: list[int]) -> None:
    enqueue(bench.store, a_request())
    queued = snapshot(bench.store)
    bench.turn()
    bench.turn(token(ids[0]))
    roll_back(bench.store, queued)
    heir = bench.another()
    heir.turn()
    heir.turn(token(ids[4]))
    bench.turn(token(ids[1]))
    assert bench.engine.cancelled == ["msg_1"]
    assert text_of(heir) == " over", "nothing of the one that was fenced off"
    heir.turn(token(ids[5], finish="max_tokens"))
    assert [(s.outcome, s.output_tokens) for s in heir.settlements()] == [("max_tokens", 2)]


def test_who_was_fenced_off_opens_no_log_that_has_expired(bench: Bench, ids: list[int]) -> None:
    begin(bench, ids[0])
    bench.lapse()
    heir = bench.another()
    heir.turn()
    heir.turn(token(ids[1], finish="max_tokens"))
    bench.store.delete(keys.log("msg_1"), keys.meta("msg_1"))  # it expired long ago
    bench.turn(token(ids[2], finish="end_of_text"))
    assert not bench.store.exists(keys.log("msg_1"), keys.meta("msg_1"))
    assert bench.outcomes == ["max_tokens"]


def test_where_more_was_lost_than_it_has_it_goes_on_from_the_log(
    bench: Bench, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.tail.KEPT_S", -1)
    begin(bench, ids[0])
    before = snapshot(bench.store)
    for token_id in ids[1:4]:
        bench.turn(token(token_id))
    roll_back(bench.store, before)
    bench.turn(token(ids[4]))
    assert bench.engine.cancelled == ["msg_1"]
    claim_at_once(bench)
    assert bench.engine.submitted[1].generated_ids == (ids[0],)
    bench.turn(token(ids[1], finish="max_tokens"))
    assert text_of(bench) == " the tide"
    assert [(s.output_tokens, s.attempts) for s in bench.settlements()] == [(2, 2)]


def test_events_of_somebody_else_are_gone_on_from(bench: Bench, ids: list[int]) -> None:
    begin(bench, ids[0])
    before = snapshot(bench.store)
    bench.turn(token(ids[1]))
    roll_back(bench.store, before)
    theirs = bench.worker._running["msg_1"].pen - 1
    bench.store.hset(keys.meta("msg_1"), "pen", theirs)  # an earlier attempt, which its heir had fenced off, wakes up
    frame = MessageEvents(last_id=3, next_index=1, open_block="text").text(" another")
    names = (keys.log("msg_1"), keys.meta("msg_1"), keys.owner("msg_1"))
    bench.store.eval(scripts.APPEND, 3, *names, theirs, keys.channel("msg_1"), 4, 1, "", 60, frame, ids[5])
    bench.turn(token(ids[2]))
    claim_at_once(bench)
    assert text_of(bench) == " the another"
    assert bench.engine.submitted[1].generated_ids == (ids[0], ids[5])


def test_a_log_that_is_gone_and_cannot_be_written_again_is_settled(
    bench: Bench, ids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.tail.KEPT_S", -1)
    begin(bench, *ids[:3])
    roll_back(bench.store, {})
    bench.turn(token(ids[3]))
    bench.turn()
    assert bench.engine.cancelled == ["msg_1"]
    assert bench.outcomes == ["error"]
    assert bench.is_forgotten()
    assert not bench.store.exists(keys.log("msg_1")), "its readers are told that it is lost"


def test_it_waits_for_room_to_write_again(bench: Bench, ids: list[int]) -> None:
    nothing = snapshot(bench.store)
    begin(bench, ids[0])
    roll_back(bench.store, nothing)
    with bench.full():
        bench.turn(token(ids[1]))
        bench.turn()
        assert not bench.store.exists(keys.log("msg_1"))
    bench.turn(token(ids[2], finish="max_tokens"))
    assert text_of(bench) == " the tide came"
    assert bench.outcomes == ["max_tokens"]


class TestAfterAnOutage:
    @pytest.fixture
    def outage(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Redis goes away once, and comes back at once."""
        send = bench.worker._broker._pipeline

        def fail(calls: Any) -> list[Any]:
            monkeypatch.setattr(bench.worker._broker, "_pipeline", send)
            raise redis.ConnectionError("gone")

        monkeypatch.setattr(bench.worker._broker, "_pipeline", fail)

    def test_nobody_claims_at_once(self, bench: Bench, outage: None) -> None:
        enqueue(bench.store, a_request())
        for _ in range(3):
            bench.turn()
        assert bench.submitted == []
        claim_at_once(bench)
        assert bench.submitted == ["msg_1"]

    @pytest.mark.parametrize(("away_s", "read", "outcomes"), [(9, True, []), (11, True, ["error"]), (11, False, [])])
    def test_readers_that_were_told_an_error_are_believed(
        self, bench: Bench, ids: list[int], away_s: float, read: bool, outcomes: list[str]
    ) -> None:
        broker = bench.worker._broker
        begin(bench)
        if read:
            bench.store.hset(keys.meta("msg_1"), "read_until", 9e15)
        broker.outages, broker.away_s = broker.outages + 1, away_s
        bench.turn(token(ids[0]))
        assert bench.outcomes == outcomes
        assert bench.events()[-1]["type"] == ("error" if outcomes else "content_block_delta")

    def test_nothing_is_settled_twice_for_nothing(self, bench: Bench, ids: list[int]) -> None:
        begin(bench, ids[0])
        bench.turn(token(ids[1], finish="max_tokens"))
        bench.store.script_flush()
        bench.turn()
        bench.turn()
        assert len({settlement.encode() for settlement in bench.settlements()}) == 1
        assert bench.is_forgotten()


Step = st.sampled_from(["token", "silence", "mark", "lose", "reply lost"])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(Step, max_size=25), st.booleans())
def test_whatever_is_lost_every_reader_sees_one_text(
    store: redis.Redis, vocabulary: Vocabulary, ids: list[int], steps: list[str], late: bool
) -> None:
    """A reader follows the log by its cursor, as a gateway does; `late` lets Redis lose its tail after the end, too."""
    store.flushall()
    bench = Bench(store, vocabulary)
    mark = snapshot(store)
    seen: list[Entry] = []

    def turn(*outputs: StepOutput) -> None:
        bench.worker._beat_due = 0.0  # so that one who is idle hears of a restart
        bench.turn(*outputs)
        seen.extend(entry for entry in log_of(bench) if int(entry[0].partition(b"-")[0]) > len(seen))

    enqueue(store, a_request(max_tokens=100))
    turn()
    said = 0
    for step in steps:
        if step == "mark":
            mark = snapshot(store)
        elif step == "lose":
            roll_back(store, mark)
        elif step == "reply lost":
            _lose_a_reply(bench)
        if step == "token":
            turn(token(ids[said % len(ids)]))
            said += 1
        else:
            turn()
    turn(token(ids[said % len(ids)], finish="max_tokens"))
    if late:
        roll_back(store, mark)
    for _ in range(3):
        turn()
    assert seen == log_of(bench)
    assert [int(entry_id.partition(b"-")[0]) for entry_id, _ in seen] == list(range(1, len(seen) + 1))
    assert text_of(bench) == "".join(f" {WORDS[i % len(WORDS)]}" for i in range(said + 1))
    assert {(s.outcome, s.output_tokens) for s in bench.settlements()} == {("max_tokens", said + 1)}
    assert bench.is_forgotten()


def _lose_a_reply(bench: Bench) -> None:
    """Let the next exchange be done twice."""
    broker = bench.worker._broker
    send = type(broker)._pipeline

    def twice(calls: Any) -> list[Any]:
        del broker._pipeline  # back to the class's own
        send(broker, calls)
        return send(broker, calls)

    broker._pipeline = twice  # type: ignore[method-assign]  # for the instance alone


@pytest.mark.parametrize("ended", [True, False])
def test_what_checks_found_is_told_again(bench: Bench, ids: list[int], ended: bool) -> None:
    begin(bench)
    generation = bench.worker._running["msg_1"]
    before = snapshot(bench.store)
    generation.triggers.append(TRIGGER)
    bench.turn(token(ids[0]))
    if ended:
        bench.turn(token(ids[1], finish="max_tokens"))
    roll_back(bench.store, before)
    bench.turn()
    bench.turn()
    told = {Trigger.decode(fields[b"r"]) for _, fields in entries_of(bench.store, keys.triggers(MODEL))}
    assert told == {TRIGGER}
