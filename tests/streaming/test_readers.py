"""Who reads, and who only says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inference.protocol.closeups import SLOW_S
from streaming.eventlog import KEEP_S
from streaming.readers import NO_PROGRESS_S, STALL_S, Readers, Reading


class FakeLog:
    def __init__(self) -> None:
        self.kept: list[set[str]] = []
        self.length_now = 0

    async def keep(self, message_ids: set[str]) -> None:
        self.kept.append(message_ids)

    async def length(self, message_id: str) -> int:
        return self.length_now


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.log = FakeLog()
        self.readers = Readers(self.log, buffer_events=10, clock=lambda: self.now)  # type: ignore[arg-type]  # a fake

    def reading(self, *, missed: bool = False, cursor: int = 0) -> Reading:
        heard: Any = SimpleNamespace(missed=missed)
        reader: Any = SimpleNamespace(cursor=cursor)
        made = Reading("msg_1", heard, reader, blocked_since=self.now)
        self.readers.add(made)
        return made


@pytest.fixture
def world() -> World:
    return World()


async def test_a_reader_whose_socket_takes_what_comes_is_left_alone(world: World) -> None:
    reading = world.reading(missed=True)
    reading.blocked_since = None
    world.now += 2 * NO_PROGRESS_S
    await world.readers.look()
    assert not reading.slow.is_set()


async def test_one_that_makes_no_progress_is_slow(world: World) -> None:
    reading = world.reading()
    await world.readers.look()
    assert not reading.slow.is_set()
    world.now += NO_PROGRESS_S + 1
    await world.readers.look()
    assert reading.slow.is_set()


async def test_one_that_only_missed_announcements_is_not(world: World) -> None:
    reading = world.reading(missed=True)
    world.now += STALL_S
    await world.readers.look()
    assert not reading.slow.is_set()


@pytest.mark.parametrize(("length", "slow"), [(15, False), (16, True)])
async def test_one_that_stalls_before_a_long_log_is_slow(world: World, length: int, slow: bool) -> None:
    reading = world.reading(cursor=5)
    world.log.length_now = length
    world.now += STALL_S
    await world.readers.look()
    assert reading.slow.is_set() == slow


async def test_messages_that_are_read_are_kept_alive(world: World) -> None:
    reading = world.reading()
    world.now += KEEP_S
    await world.readers.look()
    await world.readers.look()
    assert world.log.kept == [{"msg_1"}]
    world.readers.remove(reading)
    assert world.readers.count == 0


def test_those_that_take_nothing_are_told_of(world: World) -> None:
    reading = world.reading(cursor=7)
    assert world.readers.about() == {}
    world.now += SLOW_S + 1
    assert world.readers.about() == {"blocked": [["msg_1", 7, 2.0]]}
    reading.blocked_since = None
    assert world.readers.about() == {}
