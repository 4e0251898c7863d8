"""The results of requests, as they are told."""

from __future__ import annotations

import json
from typing import Any

from batches.ending import Ended
from batches.models import Kind
from common.error_forms import anthropic_form
from common.errors import ApiError
from streaming.batches.work import Stop
from streaming.surfaces.anthropic import assemble

LOST = ApiError("The server lost the answer to this request.")


def errored(error: ApiError) -> Stop:
    """Return the result of a request that failed: the error that a POST would have got."""
    return Stop("errored", _body("errored", error=anthropic_form(error, None)))


def without_message(kind: Kind) -> Stop:
    """Return the result of a request that was canceled or expired."""
    return Stop(kind, _body(kind))


def stopped(message_id: str, stop: Stop) -> Ended:
    """Return the end of a request that comes to nothing of its own."""
    return Ended(message_id, stop.kind, stop.body)


def ended(message_id: str, frames: bytes) -> Ended:
    """Return the result of a message that came to its end by itself."""
    try:
        return Ended(message_id, "succeeded", _body("succeeded", message=assemble(frames)))
    except ApiError as error:
        return stopped(message_id, errored(error))


def _body(kind: Kind, **more: Any) -> str:
    return json.dumps({"type": kind} | more, separators=(",", ":"))
