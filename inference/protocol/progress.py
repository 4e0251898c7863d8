"""Reading from a log how far a message came: for the worker that takes it over, and for a gateway's farewell."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from inference.protocol.events import BlockKind
from inference.protocol.outcomes import Outcome

Entry = tuple[bytes, dict[bytes, bytes]]  # of a Redis stream: its id, its fields


@dataclass(slots=True)
class Progress:
    """How far a message came, as its log has it."""

    last_id: int = 1  # message_start is there from the beginning
    input_tokens: int = 0
    blocks: int = 0
    open_block: BlockKind | None = None
    token_ids: tuple[int, ...] = ()
    cached_tokens: int = 0
    outcome: Outcome | None = None  # set when the log has its end


def encode_ids(token_ids: tuple[int, ...]) -> str:
    """Write the token ids of one log entry."""
    return ",".join(map(str, token_ids))


def decode_ids(raw: bytes) -> tuple[int, ...]:
    """Read what `encode_ids` wrote."""
    return tuple(map(int, raw.split(b","))) if raw else ()


def progress_of(entries: Iterable[Entry]) -> Progress:
    """Sum up a log's entries."""
    return further(Progress(last_id=0), entries)


def further(progress: Progress, entries: Iterable[Entry]) -> Progress:
    """Add the entries that follow to a sum, and return it."""
    token_ids = list(progress.token_ids)
    for entry_id, fields in entries:
        progress.last_id = int(entry_id.partition(b"-")[0])
        token_ids += decode_ids(fields.get(b"t", b""))
        _note(progress, json.loads(fields[b"f"].rpartition(b"\ndata: ")[2]))
    progress.token_ids = tuple(token_ids)
    return progress


def _note(progress: Progress, event: dict[str, Any]) -> None:
    kind = event["type"]
    if kind == "message_start":
        progress.input_tokens = event["message"]["usage"]["input_tokens"]
    elif kind == "content_block_start":
        progress.blocks, progress.open_block = event["index"] + 1, event["content_block"]["type"]
    elif kind == "content_block_stop":
        progress.open_block = None
    # The outcome is a guess, for want of the one in the message's meta hash.
    elif kind == "message_delta":
        progress.outcome = event["delta"]["stop_reason"]
        progress.cached_tokens = event["usage"].get("cache_read_input_tokens", 0)
    elif kind == "error":
        progress.outcome = "timeout" if event["error"]["type"] == "timeout_error" else "error"
