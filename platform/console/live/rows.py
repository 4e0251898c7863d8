"""The rows of the page of active streams: on the server, over the wire and in the browser the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from console.live.names import NameBook
from console.live.streams import LiveStream, State

STATES = {
    "queued": "queued",
    "prefill": "prefill",
    "decoding": "decoding",
    "held": "held by safety",
    "slow": "slow client",
    "resumable": "resumable",
    "cancelling": "cancelling",
}


class Row(NamedTuple):
    """One stream, in the order in which the page's script takes it. Times are in ms by the clock of Redis."""

    id: str
    key: str
    organization: str
    model: str
    worker: str
    gateway: str
    state: State
    came: int
    ttft: int  # ms; -1 before the first tokens
    unsent: int
    held: int  # tokens
    attempt: int
    tokens: int  # the last, since of most rows it alone changes


def rows_of(streams: Iterable[LiveStream], names: NameBook) -> list[Row]:
    """Return the rows of streams, with the names of what they belong to."""
    streams = list(streams)
    names.learn(streams)
    return [_row(stream, names) for stream in streams]


def _row(stream: LiveStream, names: NameBook) -> Row:
    return Row(
        stream.id,
        names.keys[stream.key],
        names.organizations[stream.organization],
        stream.model,
        stream.worker,
        stream.gateway,
        stream.state,
        int(stream.came_ms),
        -1 if stream.ttft_s is None else round(stream.ttft_s * 1000),
        stream.unsent,
        stream.held_tokens,
        stream.attempt,
        stream.output_tokens,
    )
