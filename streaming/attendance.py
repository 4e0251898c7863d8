"""One reader's time at a message, and what the message's record is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inference.protocol.reports import Delivery, common_of
from inference.protocol.requests import GenerationRequest
from streaming.eventlog import Joined
from streaming.timing import Stopwatch

BEFORE_CONTENT = 1  # events of a log that has message_start alone
STRAIGHT_MS = 1000.0  # whoever begins to read a detached message within so long has gone straight from POST to GET


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendance:
    """A reader: `late_ms` is how long after the message its own request came.

    `in_time` says that it was there before any content, and so felt the pace of the message; one that comes later is
    caught up in one go. `waited` says that it waited for the first content: it was in time, or had been as quick as it
    could. `resumed` says that it went on where an earlier one had been.
    """

    facts: dict[str, Any]  # the fields of a `Report`
    streamed: bool
    late_ms: float = 0.0
    in_time: bool = True
    waited: bool = True
    resumed: bool = False

    def delivery(self, watch: Stopwatch, *, reader: str, gateway: str, ended: bool) -> Delivery:
        """Return the report, once the reader has gone; `ended` says that it saw the end."""
        waited = self.waited and watch.ttft_ms is not None
        return Delivery(
            **self.facts,
            reader=reader,
            late_ms=self.late_ms,
            resumed=self.resumed,
            gateway=gateway,
            streamed=self.streamed,
            ttft_ms=self.late_ms + (watch.ttft_ms or 0.0) if waited else None,
            stream_ms=watch.stream_ms if self.in_time and ended else None,
            tbt_p99_ms=watch.tbt_p99_ms if self.in_time else None,
            total_ms=self.late_ms + watch.total_ms,
            bytes_sent=watch.bytes_sent,
            stages=watch.stages if watch.proxy_ms is None else {"proxy_ms": watch.proxy_ms} | watch.stages,
        )


def of_poster(request: GenerationRequest, *, streamed: bool) -> Attendance:
    """Return the attendance of whoever posted a message."""
    return Attendance(facts=common_of(request), streamed=streamed)


def of_joiner(joined: Joined, watch: Stopwatch, *, streamed: bool, resumed: bool) -> Attendance:
    """Return the attendance of whoever has just joined a message that was there."""
    late_ms = max(0.0, round(joined.age_ms - watch.total_ms, 3))
    in_time = joined.length <= BEFORE_CONTENT
    return Attendance(
        facts=joined.facts,
        streamed=streamed,
        late_ms=late_ms,
        in_time=in_time,
        waited=in_time or (late_ms <= STRAIGHT_MS and not resumed),
        resumed=resumed,
    )
