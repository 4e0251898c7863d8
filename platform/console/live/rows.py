"""The rows of the page of active streams: on the server, over the wire and in the browser the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from console.live.names import NameBook, Names
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
    turn: float  # in its model's queue: the lowest is next; -1 where it does not wait
    prefilled: int  # % of its prompt; -1 where nobody tells
    tokens: int  # the last, since of most rows it alone changes


SHAPE = (
    f"1:{','.join(Row._fields)}"  # what a page has to understand; the number is raised where a field changes meaning
)


def rows_of(streams: Iterable[LiveStream], names: NameBook) -> list[Row]:
    """Return the rows of streams, with the names of what they belong to."""
    streams = list(streams)
    known = names.learn(streams)
    return [_row(stream, known) for stream in streams]


def _row(stream: LiveStream, names: Names) -> Row:
    return Row(
        stream.id,
        names.key(stream),
        names.organization(stream),
        stream.model,
        stream.worker,
        stream.gateway,
        stream.state,
        int(stream.came_ms),
        -1 if stream.ttft_s is None else round(stream.ttft_s * 1000),
        stream.unsent,
        stream.held_tokens,
        stream.attempt,
        -1 if stream.turn is None else stream.turn,
        percent(stream.prefilled),
        stream.output_tokens,
    )


def percent(part: float | None) -> int:
    """Return a part in whole percents; -1 where it is not known."""
    return -1 if part is None else int(100 * part)
