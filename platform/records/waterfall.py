"""Where the time of one request went: its stages, each from when to when, as far as its record tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from records.models import RequestRecord

Lane = Literal["gateway", "queue", "worker", "client"]

PROXY = "proxy_ms"  # of the stages: what came before all that is drawn
# In the order in which they follow each other without a pause; what else a gateway tells comes after them.
GATEWAY_STAGES = ("auth", "validation", "tokenizing", "admission", "enqueue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stage, in ms since the request came. `is_sum` is of several moments that are not known, told as one."""

    name: str
    lane: Lane
    start: float
    length: float
    is_sum: bool = False

    @property
    def end(self) -> float:
        return self.start + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """All that is drawn, and what one has to know about it. Times are in ms."""

    bars: list[Bar]
    ttft: float | None
    end: float
    notes: list[str]

    @property
    def rows(self) -> Iterator[tuple[Bar, float, float]]:
        """Give each bar with its place and its width in percent of the whole, wide enough to be seen."""
        for bar in self.bars:
            width = max(0.3, 100 * bar.length / self.end)
            yield bar, round(min(100 * bar.start / self.end, 100 - width), 2), round(width, 2)

    @property
    def ttft_at(self) -> float | None:
        """The place of the first token, in percent."""
        return None if self.ttft is None else round(100 * self.ttft / self.end, 2)


def waterfall_of(record: RequestRecord) -> Waterfall | None:
    """Return what a record knows of its times; None where that is nothing."""
    gateway = list(_gateway_bars(record))
    entered = gateway[-1].end if gateway and not _late_ms(record) else 0.0  # when the queue had it
    worker = list(_worker_bars(record, entered))
    bars = [*gateway, *worker, *_writing(record, worker), *_client_bars(record)]
    end = max(record.total_ms or 0.0, *(bar.end for bar in bars), 0.0)
    if not bars or not end:
        return None
    return Waterfall(bars=bars, ttft=record.ttft_ms, end=end, notes=list(_notes(record)))


def _gateway_bars(record: RequestRecord) -> Iterator[Bar]:
    spent = {name.removesuffix("_ms"): float(ms) for name, ms in record.stages.items() if name != PROXY}
    order = [name for name in GATEWAY_STAGES if name in spent] + [name for name in spent if name not in GATEWAY_STAGES]
    at = _late_ms(record)
    for name in order:
        yield Bar(name=name, lane="gateway", start=at, length=spent[name])
        at += spent[name]


def _worker_bars(record: RequestRecord, entered: float) -> Iterator[Bar]:
    if record.queue_ms is None:
        return
    yield Bar(name="queue", lane="queue", start=entered, length=record.queue_ms)
    if record.generation_ms is None or not record.attempts:
        return
    taken = entered + record.queue_ms
    begun = _last_attempt(record, taken)
    if begun > taken:
        yield Bar(name="earlier attempts", lane="worker", start=taken, length=begun - taken, is_sum=True)
    prefill = record.generation_ms if record.prefill_ms is None else record.prefill_ms
    waits = min(record.batch_wait_ms or 0.0, prefill)
    if waits:
        yield Bar(name="batch wait", lane="worker", start=begun, length=waits)
    yield Bar(name="prefill", lane="worker", start=begun + waits, length=prefill - waits)
    if record.prefill_ms is None:
        return
    first = begun + record.prefill_ms
    if record.held_ms:
        yield Bar(name="held by safety", lane="worker", start=first, length=record.held_ms)
    yield Bar(name="decode", lane="worker", start=first, length=max(0.0, record.generation_ms - record.prefill_ms))
    for name, spent in sorted(record.checks.items()):
        yield Bar(name=f"check {name}", lane="worker", start=begun, length=float(spent), is_sum=True)


def _last_attempt(record: RequestRecord, taken: float) -> float:
    """Return when the worker began that ended the message: by its end, where it was not the first."""
    if record.attempts < 2 or record.finished_at is None or record.generation_ms is None:
        return taken
    end = (record.finished_at - record.created_at).total_seconds() * 1000
    return max(taken, end - record.generation_ms)


def _writing(record: RequestRecord, worker: list[Bar]) -> Iterator[Bar]:
    """Give what lies between the first token that could leave and the first that was written."""
    ready = max((bar.end for bar in worker if bar.name in ("prefill", "held by safety")), default=None)
    if ready is not None and record.prefill_ms is not None and record.ttft_ms is not None and record.ttft_ms > ready:
        yield Bar(name="to the client", lane="gateway", start=ready, length=record.ttft_ms - ready)


def _client_bars(record: RequestRecord) -> Iterator[Bar]:
    if record.ttft_ms is None:
        return
    yield Bar(name="waits", lane="client", start=0.0, length=record.ttft_ms)
    if record.stream_ms is not None:
        yield Bar(name="reads", lane="client", start=record.ttft_ms, length=record.stream_ms)


def _late_ms(record: RequestRecord) -> float:
    """How long after the message its first reader came: the gateway's times are those of this reader's request."""
    return min((float(late) for late, *_ in record.readers.values()), default=0.0)


def _notes(record: RequestRecord) -> Iterator[str]:
    if not record.outcome:
        yield "It has not been settled: what the worker spent is not known yet."
    elif not record.attempts:
        yield "No worker took it."
    elif record.prefill_ms is None:
        yield "No token was made: all that the worker spent counts as prefill."
    if record.total_ms is None:
        yield "Nobody has read it, or no gateway has told of it: what the client felt is not known."
    elif record.ttft_ms is None:
        yield "When the first token was written is not known: the answer had none, or its reader came later."
    if late := _late_ms(record):
        yield f"Its first reader came {late:,.0f} ms later: the gateway's stages are those of this reader's request."
    if proxy_ms := record.stages.get(PROXY):
        yield f"A proxy had it for {proxy_ms:,.1f} ms before, by the clock of its machine."
    if record.attempts > 1:
        yield (
            f"It took {record.attempts} attempts. The worker's times are those of the last one, placed by the clock of "
            "its machine; what was lost before is not known any closer."
        )
    if record.checks:
        yield "Each check is the sum of many moments between the others: when they were is not known."
    if record.queue_ms is not None and record.stages:
        yield "Gateway and worker measure by clocks of their own; the queue begins where the gateway was done."
