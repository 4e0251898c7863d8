"""GET /metrics: who may see it, and that one scrape covers all."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
import redis
from channels.routing import URLRouter
from channels.testing import HttpCommunicator
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from common.errors import AuthenticationFailed
from inference.protocol import keys
from inference.protocol.metrics import ANSWERS, TTFT, Tally, field_of
from inference.protocol.outcomes import OUTCOMES
from inference.protocol.queueing import CLASSES
from inference.protocol.settings import Settings
from inference.worker import Worker
from records.spool import Spool
from streaming.gateway import Gateway
from streaming.measures import output_tokens
from streaming.metrics import check_may_see
from streaming.routes import routes
from streaming.scrape import FORGOTTEN_S, Scrape, Snapshot
from tests.streaming.conftest import Ask, a_body, settlement_of

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scrape(gateway: Gateway) -> Samples:
    communicator = HttpCommunicator(URLRouter(routes(gateway)), "GET", "/metrics")
    communicator.scope["client"] = ["127.0.0.1", 50000]
    response = await communicator.get_response(timeout=5)
    assert response["status"] == 200
    assert dict(response["headers"])[b"content-type"].startswith(b"text/plain")
    return samples_of(response["body"].decode())


def samples_of(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """Return the one sample of a name that has these labels, whatever others it has."""
    (found,) = [number for (known, has), number in samples.items() if known == name and {*labels.items()} <= has]
    return found


async def test_it_works(ask: Ask, gateway: Gateway, worker: Worker, store: redis.Redis, settings: Settings) -> None:
    await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
    await settlement_of(store, settings)
    worker._beat_due = 0
    await asyncio.sleep(1.1)  # until it has

    samples = await scrape(gateway)

    assert value(samples, "sluice_requests_total", outcome="max_tokens") == 1
    assert value(samples, "sluice_requests_total", outcome="oom") == 0
    assert value(samples, "sluice_ttft_seconds_count") == value(samples, "sluice_tpot_seconds_count") == 1
    assert value(samples, "sluice_tbt_seconds_count") == 4
    assert 0 < value(samples, "sluice_ttft_seconds_sum") < 5
    for stage in ("auth", "validation", "enqueue", "queue", "prefill", "decode"):
        assert value(samples, "sluice_stage_seconds_count", stage=stage) == 1
    assert value(samples, "sluice_active_streams") == 0
    assert value(samples, "sluice_worker_generated_tokens_total", model=settings.model, worker=worker.id) == 5
    assert value(samples, "sluice_worker_running", model=settings.model) == 0
    for priority in CLASSES:
        assert value(samples, "sluice_queued", model=settings.model, priority=priority) == 0
    assert value(samples, "sluice_claimed", model=settings.model) == 0
    assert value(samples, "sluice_event_logs") == 1
    assert value(samples, "sluice_event_logs_full") == 0
    assert value(samples, "sluice_queue_limit") == settings.queue_limit
    assert value(samples, "sluice_tokens_total", model=settings.model, kind="output") == 5
    assert value(samples, "sluice_retries_total", model=settings.model) == 0
    assert value(samples, "sluice_sent_bytes_total") > 500
    assert value(samples, "sluice_loop_lag_seconds_count") > 5
    assert (value(samples, "sluice_gateways"), value(samples, "sluice_redis_up")) == (1, 1)


async def test_safety_triggers_are_told_by_what_they_are(gateway: Gateway, store: redis.Redis) -> None:
    store.hset(keys.COUNTS, "safety_triggers_total|patterns|secrets.jwt|enforce", 2)
    labels = {"check": "patterns", "category": "secrets.jwt", "action": "enforce"}
    assert value(await scrape(gateway), "sluice_safety_triggers_total", **labels) == 2


async def test_open_streams_are_counted_over_all_gateways(ask: Ask, gateway: Gateway, store: redis.Redis) -> None:
    now, _ = store.time()
    for name, age in (("other", 1), ("dead", 60), ("long gone", FORGOTTEN_S + 1)):
        store.hset(keys.GATEWAYS, name, json.dumps({"seen_at": now - age, "active_streams": 7}))
    r = await ask("POST", "/v1/messages", a_body(max_tokens=2000, stream=True))

    samples = await scrape(gateway)

    assert value(samples, "sluice_active_streams") == 8
    assert value(samples, "sluice_gateways") == 2
    assert not store.hexists(keys.GATEWAYS, "long gone")
    await r.leave()


async def test_what_a_gateway_counted_outlives_it(ask: Ask, gateway: Gateway, settings: Settings) -> None:
    await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
    await (await ask("POST", "/v1/messages", {})).whole()
    await gateway.close()
    successor = Gateway(settings)
    successor.catalog._templates |= gateway.catalog._templates  # loading it takes longer than a test

    samples = await scrape(successor)

    assert value(samples, "sluice_ttft_seconds_count") == 1
    assert value(samples, "sluice_errors_total", status="400", type="invalid_request_error") == 1
    assert value(samples, "sluice_gateways") == 1
    await successor.close()


async def test_a_reader_that_resumes_says_nothing_of_the_pace(ask: Ask, gateway: Gateway) -> None:
    r = await (await ask("POST", "/v1/messages", a_body(stream=True))).whole()
    message_id = r.events[0]["message"]["id"]
    await (await ask("GET", f"/v1/streams/{message_id}", last_event_id="2")).whole()

    samples = await scrape(gateway)

    assert value(samples, "sluice_ttft_seconds_count") == value(samples, "sluice_tpot_seconds_count") == 1
    assert value(samples, "sluice_tbt_seconds_count") == 4
    assert value(samples, "sluice_request_seconds_count") == 2
    assert value(samples, "sluice_resumes_total") == 1


class TestOfLongStreams:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, heartbeat_s=0.1, sim_tpot_ms=250)

    async def test_pings_are_counted(self, ask: Ask, gateway: Gateway) -> None:
        await (await ask("POST", "/v1/messages", a_body(max_tokens=3, stream=True))).whole()
        assert value(await scrape(gateway), "sluice_heartbeats_total") >= 2

    async def test_slow_clients_are_counted(self, ask: Ask, gateway: Gateway) -> None:
        r = await ask("POST", "/v1/messages", a_body(max_tokens=100, stream=True))
        await r.until(b"content_block_delta")
        for reading in gateway.readers._all:
            reading.slow.set()  # as `Readers` finds out
        await r.communicator.wait()

        samples = await scrape(gateway)
        assert value(samples, "sluice_slow_clients_total") == 1
        assert value(samples, "sluice_answers_total", result="left_out") == 1


async def test_without_redis_it_says_so(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> Snapshot:
        raise redis.ConnectionError

    monkeypatch.setattr(gateway, "look", away)

    assert await scrape(gateway) == {("sluice_redis_up", frozenset()): 0}


class TestExposition:
    def samples(self, snapshot: Snapshot) -> Samples:
        return samples_of(generate_latest(Scrape(snapshot)).decode())

    def test_the_logs_budget_is_told(self) -> None:
        samples = self.samples(Snapshot(event_logs=7, logs_full=True))
        assert (value(samples, "sluice_event_logs"), value(samples, "sluice_event_logs_full")) == (7, 1)

    def test_each_outcome_is_there_from_the_start(self) -> None:
        samples = self.samples(Snapshot(outcomes={"end_turn": 3, "of a newer worker": 1}))
        assert {name: value(samples, "sluice_requests_total", outcome=name) for name in OUTCOMES} == dict.fromkeys(
            OUTCOMES, 0
        ) | {"end_turn": 3}
        assert value(samples, "sluice_requests_total", outcome="of a newer worker") == 1

    @pytest.mark.parametrize(
        ("name", "labels"),
        [
            ("sluice_answers_total", {"result": "good", "type": ""}),
            ("sluice_answers_total", {"result": "bad", "type": "overloaded_error"}),
            ("sluice_answers_total", {"result": "bad", "type": "server_shutdown"}),
            ("sluice_errors_total", {"status": "529", "type": "overloaded_error"}),
            ("sluice_limited_total", {"level": "key", "limit": "rpm", "mode": "shadow"}),
            ("sluice_quota_checks_total", {"result": "behind"}),
            ("sluice_safety_triggers_total", {"check": "toxicity", "category": "check_failed", "action": "enforce"}),
            ("sluice_safety_triggers_total", {"check": "patterns", "category": "secrets.jwt", "action": "flag"}),
            ("sluice_tokens_total", {"model": "m|odd", "kind": "cached"}),
            ("sluice_retries_total", {"model": "m|odd"}),
            ("sluice_ttft_seconds_count", {"model": "m|odd"}),
        ],
    )
    def test_what_can_be_counted_is_there_from_the_start(self, name: str, labels: dict[str, str]) -> None:
        samples = self.samples(Snapshot(queued={"m|odd": {}}))
        assert samples[name, frozenset(labels.items())] == 0

    def test_what_was_counted_takes_its_place(self) -> None:
        field = field_of(ANSWERS, "bad", "api_error")
        samples = self.samples(Snapshot(counts={field: 2, field_of(ANSWERS, "bad", "of a newer version"): 1}))
        assert value(samples, "sluice_answers_total", result="bad", type="api_error") == 2
        assert value(samples, "sluice_answers_total", type="of a newer version") == 1

    def test_what_waits_for_the_database_is_told(self) -> None:
        samples = self.samples(Snapshot(spool=Spool(waiting=7, oldest_s=1.5, set_aside=2)))
        names = ("sluice_spool_reports", "sluice_spool_oldest_seconds", "sluice_spool_set_aside")
        assert [value(samples, name) for name in names] == [7, 1.5, 2]

    def test_buckets_add_up(self) -> None:
        counts = {"ttft_seconds|m|0.1": 2, "ttft_seconds|m|0.5": 3, "ttft_seconds|m|inf": 1}
        samples = self.samples(Snapshot(counts=counts | {"ttft_seconds|m|sum": 1_500_000}))
        for bound, total in (("0.075", 0), ("0.1", 2), ("0.4", 2), ("0.5", 5), ("60", 5), ("+Inf", 6)):
            assert value(samples, "sluice_ttft_seconds_bucket", le=bound, model="m") == total
        assert value(samples, "sluice_ttft_seconds_sum") == 1.5

    def test_bounds_of_another_version_count(self) -> None:
        samples = self.samples(Snapshot(counts={"ttft_seconds|m|0.33": 2}))
        assert value(samples, "sluice_ttft_seconds_bucket", le="0.33") == 2
        assert value(samples, "sluice_ttft_seconds_bucket", le="0.3") == 0

    def test_metrics_of_another_version_are_left_out(self) -> None:
        counts = {"news_seconds|1": 2, "ttft_seconds|0.1": 2, "errors_total|500": 1}
        assert self.samples(Snapshot(counts=counts)) == self.samples(Snapshot())

    def test_a_name_may_have_any_character(self) -> None:
        tally = Tally()
        tally.observe(TTFT, 0.1, "a|b%")
        samples = self.samples(Snapshot(counts=dict(tally._counts)))
        assert value(samples, "sluice_ttft_seconds_count", model="a|b%") == 1

    def test_processes_tell_what_they_are(self) -> None:
        gateways = {"g": {"version": "1", "active_streams": 3, "draining": True}}
        samples = self.samples(Snapshot(gateways=gateways, workers={"w": {"model": "m", "version": "2"}}))
        assert value(samples, "sluice_build_info", kind="gateway", process="g", version="1") == 1
        assert value(samples, "sluice_build_info", kind="worker", process="w", version="2") == 1
        assert value(samples, "sluice_gateway_active_streams", gateway="g") == 3
        assert value(samples, "sluice_gateway_draining", gateway="g") == 1

    def test_a_worker_of_an_older_version_tells_less(self) -> None:
        samples = self.samples(Snapshot(workers={"w": {"model": "m", "running": 2}}))
        assert value(samples, "sluice_worker_running", worker="w") == 2
        assert not any(name == "sluice_worker_tokens_per_second" for name, _ in samples)


class TestAccess:
    def scope(self, peer: str, **headers: str) -> dict[str, object]:
        pairs = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        return {"client": [peer, 50000], "headers": pairs}

    @pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
    def test_this_machine_may_see_it(self, peer: str) -> None:
        check_may_see(self.scope(peer), "")

    @pytest.mark.parametrize("peer", ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", ""])
    def test_others_need_the_token(self, peer: str) -> None:
        with pytest.raises(AuthenticationFailed):
            check_may_see(self.scope(peer), "")
        for wrong in ("Bearer other", "Bearer ", "secret"):
            with pytest.raises(AuthenticationFailed):
                check_may_see(self.scope(peer, authorization=wrong), "secret")
        check_may_see(self.scope(peer, authorization="Bearer secret"), "secret")

    @pytest.mark.parametrize("name", ["x_forwarded_for", "forwarded", "x_real_ip", "via"])
    def test_a_proxy_on_this_machine_is_not_this_machine(self, name: str) -> None:
        with pytest.raises(AuthenticationFailed):
            check_may_see(self.scope("127.0.0.1", **{name: "10.0.0.1"}), "secret")
        check_may_see(self.scope("127.0.0.1", authorization="Bearer secret", **{name: "10.0.0.1"}), "secret")

    def test_a_peer_without_a_name_is_not_this_machine(self) -> None:
        with pytest.raises(AuthenticationFailed):
            check_may_see({"client": None, "headers": []}, "")

    async def test_it_is_refused_with_a_typed_error(self, ask: Ask) -> None:
        r = await (await ask("GET", "/metrics")).whole()
        assert (r.status, r.json()["error"]["type"]) == (401, "authentication_error")


@pytest.mark.parametrize(
    ("frames", "tokens"),
    [
        (b'data: {"usage":{"input_tokens":3,"output_tokens":17}}\n\n', 17),
        (b'{"output_tokens":1} {"output_tokens":2}', 2),
        (b"", 0),
    ],
)
def test_the_last_events_tell_the_tokens(frames: bytes, tokens: int) -> None:
    assert output_tokens(frames) == tokens
