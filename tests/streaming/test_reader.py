"""One reader for live and replay: nothing lost, nothing twice."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.announcements import Announcement
from streaming.eventlog import Chunk, StreamLost
from streaming.reader import LogReader


def chunk_of(first: int, last: int, end: int) -> Chunk:
    return Chunk(b"".join(b"<%d>" % i for i in range(first, last + 1)), last, 0, last == end)


class FakeLog:
    """A log that has the events up to `last`, of `end` in all."""

    def __init__(self, end: int) -> None:
        self.last, self.end, self.reads, self.gone = 1, end, 0, False

    async def read(self, message_id: str, *, after: int, count: int) -> Chunk | None:
        self.reads += 1
        last = min(self.last, after + count)
        return chunk_of(after + 1, last, self.end) if last > after else None

    async def check_is_there(self, message_id: str, *, after: int) -> None:
        if self.gone:
            raise StreamLost(message_id)


class FakeSubscription:
    """Announcements that a test lines up; each is in the log before it is heard."""

    def __init__(self, log: FakeLog) -> None:
        self.log, self.missed, self.said_before = log, False, 1
        self.waiting: deque[tuple[int, int] | None] = deque()

    async def confirmed(self) -> None:
        self.log.last = max(self.log.last, self.said_before)

    async def get(self, timeout: float) -> Announcement | None:
        if not self.waiting:
            self.log.last = self.log.end  # all is written by now, whether heard or not
            return None
        heard = self.waiting.popleft()
        if heard is None:
            self.missed = True
            return None
        self.log.last = max(self.log.last, heard[1])
        return Announcement(heard[0], chunk_of(*heard, self.log.end))


def reader_of(end: int, *, cursor: int = 1) -> tuple[LogReader, FakeLog, FakeSubscription]:
    log = FakeLog(end)
    subscription = FakeSubscription(log)
    reader = LogReader(log, subscription, "msg_1", cursor=cursor)  # type: ignore[arg-type]  # fakes
    return reader, log, subscription


async def read_all(reader: LogReader) -> bytes:
    frames = b""
    while not reader.ended:
        chunk = await reader.next(1.0)
        frames += chunk.frames if chunk else b""
    return frames


async def test_it_works() -> None:
    reader, log, subscription = reader_of(4)
    subscription.waiting += [(2, 2), (3, 4)]
    assert await read_all(reader) == b"<2><3><4>"
    assert log.reads == 1, "once it hears, what follows the cursor needs no look at the log"


async def test_a_gap_is_filled_from_the_log() -> None:
    reader, _, subscription = reader_of(5)
    subscription.waiting += [(4, 4), (5, 5)]
    assert await read_all(reader) == b"<2><3><4><5>"


async def test_what_was_heard_before_is_not_repeated() -> None:
    reader, _, subscription = reader_of(4)
    subscription.waiting += [(2, 3), (2, 3), (3, 4)]
    assert await read_all(reader) == b"<2><3><4>"


async def test_a_finished_log_is_replayed_in_slices() -> None:
    reader, log, _ = reader_of(1000, cursor=0)
    log.last = 1000
    assert await read_all(reader) == b"".join(b"<%d>" % i for i in range(1, 1001))
    assert log.reads == 5


async def test_what_came_before_it_heard_is_read_from_the_log() -> None:
    reader, _, subscription = reader_of(4)
    subscription.said_before = 3
    subscription.waiting += [(4, 4)]
    assert await read_all(reader) == b"<2><3><4>"


async def test_silence_is_told() -> None:
    reader, log, _ = reader_of(1, cursor=1)
    log.end = 1
    assert await reader.next(0.01) is None


async def test_a_log_that_vanished_is_told_of() -> None:
    reader, log, _ = reader_of(1)
    log.gone, log.end = True, 1
    with pytest.raises(StreamLost):
        await reader.next(0.01)


@given(st.data())
async def test_any_announcements_give_each_event_once(data: st.DataObject) -> None:
    end = data.draw(st.integers(2, 30))
    spans = st.integers(1, end).flatmap(lambda first: st.tuples(st.just(first), st.integers(first, end)))
    reader, _, subscription = reader_of(end)
    subscription.waiting += data.draw(st.lists(st.one_of(spans, st.none()), max_size=12))
    assert await read_all(reader) == b"".join(b"<%d>" % i for i in range(2, end + 1))
