"""The story of one stream, from what Redis has of it: when what happened, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import redis

from console.live.shown import age_text, ms_text
from console.live.streams import LiveStream
from inference.protocol import keys


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened: when, and how many seconds after the request came."""

    at: datetime
    after_s: float
    what: str
    more: str = ""

    @property
    def after(self) -> str:
        return ms_text(self.after_s * 1000) if self.after_s < 10 else age_text(self.after_s)


def story_of(client: redis.Redis, stream: LiveStream, written_ms: float | None = None) -> list[Moment]:
    """Return what happened to a stream up to now: what Redis keeps the time of, and what its record tells."""
    found = cast(dict[bytes, bytes], client.hgetall(keys.meta(stream.id)))
    meta = {name.decode(): value.decode() for name, value in found.items()}
    return sorted(_moments(stream, meta, written_ms), key=lambda moment: moment.after_s)


def _moments(stream: LiveStream, meta: dict[str, str], written_ms: float | None) -> Iterator[Moment]:
    def moment(at_ms: float, what: str, more: str = "") -> Moment:
        return Moment(datetime.fromtimestamp(at_ms / 1000, UTC), (at_ms - stream.came_ms) / 1000, what, more)

    yield moment(stream.came_ms, "Its request came")
    opened_ms = int(meta.get("opened", 0))
    if opened_ms:
        yield moment(opened_ms, "It was put into the queue")
    pen_ms = int(meta.get("pen", 0))  # pens are the times of claims
    worker = f"by {meta['worker']}" if "worker" in meta else ""
    if "waited_ms" in meta and opened_ms:
        claimed_ms = opened_ms + int(meta["waited_ms"])
        again = stream.attempt > 1 and pen_ms > claimed_ms
        yield moment(claimed_ms, "A worker took it", "" if again else worker)
        if again:
            yield moment(pen_ms, "It was taken again", f"{worker}, attempt {stream.attempt}")
    if "first_ms" in meta:
        yield moment(int(meta["first_ms"]), "Its first tokens were released")
    if written_ms is not None:
        yield moment(stream.came_ms + written_ms, "They were written to its client")
    if "ended_ms" in meta:
        yield moment(int(meta["ended_ms"]), "It ended", stream.outcome)
