"""How a message's log is opened: by the gateway that takes the request, and by its worker where Redis lost the log."""

from __future__ import annotations

import time
from typing import Any

from inference.protocol import keys, scripts
from inference.protocol.events import MessageEvents
from inference.protocol.requests import GenerationRequest
from inference.protocol.settings import Settings

TOMBSTONE_S = 24 * 3600  # how much longer than its log is known whose it was
RETRY_MS = 2000

Call = tuple[str, tuple[str, str, str], tuple[Any, ...]]  # script, keys, arguments


def longest_life_s(settings: Settings, patience_s: int | None = None) -> int:
    """Return after how long even a log that nobody ever ends is gone."""
    kept_s = max(settings.event_log_ttl_s, patience_s or 0)
    return int((patience_s or settings.queue_timeout_s) + settings.request_timeout_s) + kept_s


def first_frame(request: GenerationRequest, *, retry_ms: int = RETRY_MS) -> bytes:
    """Return the frame of `message_start`."""
    return MessageEvents().message_start(
        message_id=request.id, model=request.model, input_tokens=len(request.prompt_ids), retry_ms=retry_ms
    )


def opening(
    request: GenerationRequest, settings: Settings, start: bytes, *, lease_ms: int = 0, gateway: str = "", pen: int = 0
) -> Call:
    """Return the call that opens a log with its first frame.

    `lease_ms` above 0 makes the caller, a `gateway`, its first reader. `pen` is that of the worker that opens it again.
    """
    life_s = longest_life_s(settings, request.patience_s)
    facts = {
        "key": request.key,
        "model": request.model,
        "created_at": request.created_at,
        "input_tokens": len(request.prompt_ids),
        "spent_ms": max(0, round((time.time() - request.created_at) * 1000)),  # between its coming and this
        "pen": pen,
    }
    if gateway and lease_ms:
        facts["gateway"] = gateway
    if request.detached:
        facts["detached"] = 1
    if request.patience_s:
        facts["kept_s"] = max(settings.event_log_ttl_s, request.patience_s)
    names = (keys.log(request.id), keys.meta(request.id), keys.owner(request.id))
    head = (start, life_s, life_s + TOMBSTONE_S, request.organization, lease_ms)
    return scripts.OPEN, names, (*head, *(part for fact in facts.items() for part in fact))
