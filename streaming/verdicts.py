"""What a request came to, as the client that posted it felt it: good, bad and of what type, or of no account.

Each is judged once. One that is detached, or of a batch, is not judged here but where it is settled, by how it ended.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from common.errors import ApiError
from inference.protocol.minutes import BAD, GOOD, LEFT_OUT

SHUTDOWN = "server_shutdown"

_STOP_REASON = re.compile(rb'"stop_reason":"(\w+)"')


@dataclass(slots=True)
class Answer:
    """What is known of the answer to a request, by its end.

    `counts` says that it is judged: to whoever posted a message and waits for what it says. Who resumes, or comes again
    with an idempotency key, was judged before.
    """

    counts: bool = False
    model: str = ""
    organization: str = ""
    last_sent: bytes = b""  # the events that its client was sent last, in the log's own form


def verdict_of_error(error: ApiError) -> str:
    """Return the verdict on a refusal: what the caller could have done otherwise is of no account."""
    return BAD + error.kind if error.status >= 500 else LEFT_OUT


def verdict_of(last_sent: bytes) -> str:
    """Return the verdict on an answer by the events that were sent last, "" where it has no end."""
    start = (b"\n" + last_sent).rfind(b"\nevent: ")
    name, _, rest = last_sent[start + len(b"event: ") :].partition(b"\n") if start >= 0 else (b"", b"", b"")
    if name == b"error":
        return BAD + str(json.loads(rest.removeprefix(b"data: "))["error"]["type"])
    if name == SHUTDOWN.encode():
        return BAD + SHUTDOWN
    if name != b"message_stop":
        return ""
    reason = stop_reason(last_sent)
    return BAD + SHUTDOWN if reason == SHUTDOWN else LEFT_OUT if reason == "cancelled" else GOOD


def stop_reason(last_sent: bytes) -> str:
    """Return why a message stopped by the events that were sent last, "" where they do not tell."""
    reasons = _STOP_REASON.findall(last_sent)
    return reasons[-1].decode() if reasons else ""
