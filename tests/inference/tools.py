"""Small stand-ins for the worker's tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import redis

from inference.engines.base import EngineRequest, EngineStats, StepOutput
from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.progress import Entry
from inference.protocol.requests import GenerationRequest

MODEL = "m"


def a_request(message_id: str = "msg_1", **changes: Any) -> GenerationRequest:
    request = GenerationRequest(id=message_id, model=MODEL, organization="org_1", key="key_1", prompt_ids=(1, 2, 3),
                                texts=("hi",), max_tokens=10, created_at=1.0)  # fmt: skip
    return replace(request, **changes)


def entries_of(store: redis.Redis, stream: str) -> list[Entry]:
    return cast(list[Entry], store.xrange(stream))


def enqueue(store: redis.Redis, request: GenerationRequest, *, head_start_ms: int = 0, limit: int = 100) -> int:
    """Do what the gateway does: open the log and queue the request."""
    start = MessageEvents().message_start(message_id=request.id, model=MODEL, input_tokens=3, retry_ms=2000)
    store.eval(
        scripts.OPEN, 2, keys.log(request.id), keys.meta(request.id), start, 60, "attempt", 0, "organization", "o"
    )
    names = (keys.ready(MODEL), keys.payloads(MODEL), keys.wake(MODEL))
    return int(store.eval(scripts.ENQUEUE, 3, *names, request.id, request.encode(), head_start_ms, limit))


class ScriptedEngine:
    """Gives what a test tells it to, and notes what it was asked."""

    context_length = 100
    max_batch = 4

    def __init__(self) -> None:
        self.submitted: list[EngineRequest] = []
        self.cancelled: list[str] = []
        self.steps: list[list[StepOutput]] = []

    def submit(self, request: EngineRequest) -> None:
        self.submitted.append(request)

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    def step(self) -> list[StepOutput]:
        return self.steps.pop(0) if self.steps else []

    def stats(self) -> EngineStats:
        return EngineStats()
