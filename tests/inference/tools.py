"""Small stand-ins for the worker's tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import redis

from inference.broker import Broker
from inference.detokenizer import Vocabulary
from inference.engines.base import EngineRequest, EngineStats, StepOutput
from inference.protocol import keys, scripts
from inference.protocol.opening import first_frame, opening
from inference.protocol.progress import Entry
from inference.protocol.reports import Settlement
from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import Settings, load
from inference.worker import Worker

MODEL = "m"
SETTINGS = load({"SLUICE_MODEL": MODEL})


def a_request(message_id: str = "msg_1", **changes: Any) -> GenerationRequest:
    request = GenerationRequest(id=message_id, model=MODEL, organization="org_1", key="key_1", prompt_ids=(1, 2, 3),
                                texts=("hi",), max_tokens=10, created_at=1.0)  # fmt: skip
    return replace(request, **changes)


Snapshot = dict[bytes, bytes]


def snapshot(store: redis.Redis) -> Snapshot:
    """Take down all that Redis has."""
    return {name: cast(bytes, store.dump(name)) for name in store.scan_iter()}


def roll_back(store: redis.Redis, to: Snapshot) -> None:
    """Do at once what a restart does that loses the tail: all since is gone, and so are the scripts."""
    with store.pipeline(transaction=True) as pipe:
        pipe.flushall()
        pipe.script_flush()
        for name, value in to.items():
            pipe.restore(name, 0, value)
        pipe.execute()


def entries_of(store: redis.Redis, stream: str) -> list[Entry]:
    return cast(list[Entry], store.xrange(stream))


def enqueue(store: redis.Redis, request: GenerationRequest, *, head_start_ms: float = 0, limit: int = 100) -> int:
    """Do what the gateway does: open the log and queue the request."""
    script, opened, arguments = opening(request, SETTINGS, first_frame(request))
    store.eval(script, len(opened), *opened, *arguments)
    names = (keys.ready(MODEL), keys.payloads(MODEL), keys.wake(MODEL))
    return int(store.eval(scripts.ENQUEUE, 3, *names, request.id, request.encode(), head_start_ms, limit))


class ScriptedEngine:
    """Gives what a test tells it to, and notes what it was asked."""

    context_length = 100
    max_batch = 4

    def __init__(self) -> None:
        self.refusal: Exception | None = None
        self.submitted: list[EngineRequest] = []
        self.cancelled: list[str] = []
        self.steps: list[list[StepOutput]] = []
        self.load = EngineStats()

    def submit(self, request: EngineRequest) -> None:
        if self.refusal:
            raise self.refusal
        self.submitted.append(request)

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    def step(self) -> list[StepOutput]:
        return self.steps.pop(0) if self.steps else []

    def stats(self) -> EngineStats:
        return self.load


class Bench:
    """A worker on a bench: its engine, its Redis, and what came out."""

    def __init__(self, store: redis.Redis, vocabulary: Vocabulary, settings: Settings = SETTINGS) -> None:
        self.store, self.engine, self.vocabulary = store, ScriptedEngine(), vocabulary
        broker = Broker(store, model=MODEL, lease_s=settings.lease_s, log_ttl_s=60)
        self.worker = Worker(self.engine, broker, vocabulary, settings)

    def another(self) -> Bench:
        """Return a second worker on the same Redis."""
        return Bench(self.store, self.vocabulary)

    def turn(self, *outputs: StepOutput) -> None:
        self.engine.steps.append(list(outputs))
        self.worker.turn()

    def events(self, message_id: str = "msg_1") -> list[dict[str, Any]]:
        rows = entries_of(self.store, keys.log(message_id))
        return [json.loads(fields[b"f"].rpartition(b"data: ")[2]) for _, fields in rows]

    def settlements(self) -> list[Settlement]:
        return [Settlement.decode(fields[b"r"]) for _, fields in entries_of(self.store, keys.settlements(MODEL))]

    @property
    def outcomes(self) -> list[str]:
        return [settlement.outcome for settlement in self.settlements()]

    @property
    def submitted(self) -> list[str]:
        return [request.id for request in self.engine.submitted]

    def is_forgotten(self) -> bool:
        """Say whether nothing is left in the queue."""
        return not self.store.exists(keys.ready(MODEL), keys.payloads(MODEL), keys.leases(MODEL), keys.attempts(MODEL))

    def lapse(self, message_id: str = "msg_1") -> None:
        self.store.zadd(keys.leases(MODEL), {message_id: 0})

    def crash_before_settling(self, *outputs: StepOutput) -> None:
        """Do a turn that dies between the last event and the settlement."""
        broker = self.worker._broker
        broker.settle = lambda *_: broker.renew([])  # type: ignore[method-assign]  # says nothing
        self.turn(*outputs)

    def age(self, message_id: str = "msg_1", *, seconds: float) -> None:
        """Let a request have come so much earlier."""
        arrived, _, blob = cast(bytes, self.store.hget(keys.payloads(MODEL), message_id)).partition(b"|")
        self.store.hset(keys.payloads(MODEL), message_id, b"%d|%s" % (int(arrived) - int(seconds * 1000), blob))

    def rewrite(self, message_id: str = "msg_1", **changes: Any) -> None:
        """Change fields of a queued payload."""
        arrived, _, blob = cast(bytes, self.store.hget(keys.payloads(MODEL), message_id)).partition(b"|")
        body = json.dumps(json.loads(blob) | changes).encode()
        self.store.hset(keys.payloads(MODEL), message_id, arrived + b"|" + body)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Let Redis have no memory left."""
        self.store.config_set("maxmemory", 1)
        try:
            yield
        finally:
            self.store.config_set("maxmemory", 0)
