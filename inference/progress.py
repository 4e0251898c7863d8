"""Reading from a log how far a message came, for the worker that takes it over."""

from __future__ import annotations

import json
from collections.abc import Iterable

from inference.generation import Progress


def encode_ids(token_ids: tuple[int, ...]) -> str:
    """Write the token ids of one log entry."""
    return ",".join(map(str, token_ids))


def decode_ids(raw: bytes) -> tuple[int, ...]:
    """Read what `encode_ids` wrote."""
    return tuple(map(int, raw.split(b","))) if raw else ()


def progress_of(entries: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> Progress:
    """Sum up a log's entries."""
    progress, token_ids = Progress(last_id=0), []
    for entry_id, fields in entries:
        progress.last_id = int(entry_id.partition(b"-")[0])
        token_ids += decode_ids(fields.get(b"t", b""))
        body = json.loads(fields[b"f"].rpartition(b"\ndata: ")[2])
        if body["type"] == "content_block_start":
            progress.blocks, progress.text_open = body["index"] + 1, body["content_block"]["type"] == "text"
        elif body["type"] == "content_block_stop":
            progress.text_open = False
        elif body["type"] == "message_delta":
            progress.outcome = body["delta"]["stop_reason"]
        elif body["type"] == "error":
            progress.outcome = "timeout" if body["error"]["type"] == "timeout_error" else "error"
    progress.token_ids = tuple(token_ids)
    return progress
