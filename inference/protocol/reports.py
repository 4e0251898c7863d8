"""What is told of a message: the worker's settlement and the gateway's delivery, merged to a record, and triggers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from inference.protocol.outcomes import Outcome
from inference.protocol.policies import Action, Side
from inference.protocol.requests import GenerationRequest, known_fields

VERSION = 1
LOGGED = ("organization", "key", "model", "created_at", "input_tokens", "detached")  # fields of `keys.meta`


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What both reports know, so that a record can be made from either."""

    id: str
    organization: str
    key: str
    model: str
    created_at: float  # seconds since the epoch
    input_tokens: int
    detached: bool = False  # nobody held a connection for it

    def encode(self) -> str:
        return json.dumps({"version": VERSION} | asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, blob: bytes | str) -> Self:
        return cls(**known_fields(cls, json.loads(blob)))


def common_of(request: GenerationRequest) -> dict[str, Any]:
    """Return the fields of `Report`."""
    return {
        "id": request.id,
        "organization": request.organization,
        "key": request.key,
        "model": request.model,
        "created_at": request.created_at,
        "input_tokens": len(request.prompt_ids),
        "detached": request.detached,
    }


def common_in(message_id: str, logged: Sequence[bytes | None]) -> dict[str, Any] | None:
    """Return the same of a message whose log says `LOGGED`, None where it says nothing."""
    organization, key, model, created_at, input_tokens, detached = logged
    if organization is None or key is None or model is None or created_at is None or input_tokens is None:
        return None
    return {
        "id": message_id,
        "organization": organization.decode(),
        "key": key.decode(),
        "model": model.decode(),
        "created_at": float(created_at),
        "input_tokens": int(input_tokens),
        "detached": detached is not None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement(Report):
    """Written once per message by the worker that ended it. Times in ms."""

    outcome: Outcome
    output_tokens: int
    cached_tokens: int = 0  # of the input, not computed for this message but found in a prefix cache
    attempts: int
    worker: str
    finished_at: float
    queue_ms: float
    prefill_ms: float | None = None  # claim to first token
    batch_wait_ms: float = 0.0  # of these, before the engine let it into the batch
    generation_ms: float  # claim to end
    checks: dict[str, float] = field(default_factory=dict)  # safety check -> time it took in all
    held_tokens: int = 0  # the most that safety held back at a time
    held_ms: float = 0.0  # for how long it held the first of them back


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Report):
    """Written by the gateway when a reader has gone or been served; `reader` is its request's id, or the batch's.

    Times in ms, on the gateway's monotonic clock, from when the message's own POST was received: that of a detached
    message came `late_ms` before its reader's request, by the clock of Redis. `ttft_ms` is of a reader that waited for
    the first content, or came straight from its POST to find it; `stream_ms` and `tbt_p99_ms` are of one that was there
    before any content, since one that comes later gets at once what there is.
    """

    reader: str = ""
    late_ms: float = 0.0
    resumed: bool = False
    gateway: str
    streamed: bool
    ttft_ms: float | None  # request received to first content delta written
    stream_ms: float | None  # first content delta to last, for who saw the end
    tbt_p99_ms: float | None
    total_ms: float  # request received to this reader's last byte
    bytes_sent: int
    stages: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """What a safety check found, told by the worker that found it. Another attempt finds the same: `id` is the same.

    `position` is where the span begins, in characters, in all texts of its side. `span` is its keyed digest; the
    `text` itself is there only where the policy has it kept, for `keep_days`.
    """

    message: str
    organization: str
    key: str
    model: str
    policy: str
    check: str
    category: str
    action: Action
    side: Side
    position: int
    score: float
    span: str
    text: str = ""
    keep_days: int = 0
    found_at: float  # seconds since the epoch

    @property
    def id(self) -> str:
        return f"{self.message}:{self.check}:{self.side}:{self.position}"

    def encode(self) -> str:
        return json.dumps({"version": VERSION} | asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, blob: bytes | str) -> Self:
        return cls(**known_fields(cls, json.loads(blob)))
