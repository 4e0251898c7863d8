"""What is kept of what was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import tail as tail_module
from inference.tail import KEPT_S, Batch, Tail


class World:
    """A tail with a clock, and batches of events named for their ids."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tail = Tail(clock=lambda: self.now)
        self.next_id = 2

    def batch(self, size: int) -> Batch:
        ids = range(self.next_id, self.next_id + size)
        self.next_id += size
        return Batch(ids.start, [frame_of(i) for i in ids], [(i,) for i in ids], deltas=size)

    def write(self, size: int) -> None:
        self.tail.keep(self.batch(size))


def frame_of(event_id: int) -> bytes:
    return b"event: content_block_delta\ndata: %d\n\n" % event_id


def ids_of(batch: Batch | None) -> list[int] | None:
    if batch is None:
        return None
    assert batch.frames == [frame_of(i) for (i,) in batch.token_ids]
    assert batch.deltas == len(batch.frames)
    assert not batch.frames or batch.token_ids[0] == (batch.first_id,)
    return [i for (i,) in batch.token_ids]


@pytest.fixture
def world() -> World:
    return World()


def test_it_works(world: World) -> None:
    world.write(2)
    world.write(1)
    assert ids_of(world.tail.after(2, frame_of(2), world.batch(1))) == [3, 4, 5]


def test_all_of_a_log_but_its_first_event(world: World) -> None:
    world.write(2)
    assert ids_of(world.tail.after(1, b"", world.batch(1))) == [2, 3, 4]


def test_an_event_of_somebody_else_is_not_gone_on_from(world: World) -> None:
    world.write(2)
    assert world.tail.after(2, b"another", world.batch(1)) is None


def test_a_log_that_has_more_than_we_wrote_is_not_ours(world: World) -> None:
    world.write(2)
    assert world.tail.after(9, frame_of(9), world.batch(1)) is None


def test_what_redis_cannot_lose_any_more_is_let_go(world: World) -> None:
    world.write(2)
    world.now += KEPT_S + 1
    world.write(2)
    assert world.tail.after(2, frame_of(2), world.batch(1)) is None
    assert ids_of(world.tail.after(3, frame_of(3), world.batch(0))) == [4, 5]


def test_time_without_a_word_from_redis_does_not_count(world: World) -> None:
    world.write(2)
    world.now += 10 * KEPT_S
    assert ids_of(world.tail.after(2, frame_of(2), world.batch(1))) == [3, 4]


def test_it_has_a_size(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "KEPT_BYTES", 3 * len(frame_of(2)))
    for _ in range(7):
        world.write(1)
    assert world.tail.first_id == 6


def test_the_end_is_kept_with_what_led_to_it(world: World) -> None:
    last = world.batch(2)
    last.outcome = "max_tokens"
    world.tail.keep(last)
    mended = world.tail.after(2, frame_of(2), world.batch(0))
    assert mended is not None
    assert mended.outcome == "max_tokens"


@given(st.data())
def test_whatever_is_lost_and_kept_again_comes_back(data: st.DataObject) -> None:
    world = World()
    for _ in range(data.draw(st.integers(1, 10))):
        batch = world.batch(data.draw(st.integers(0, 4)))
        if batch.frames:
            world.tail.keep(batch)
        last_id = data.draw(st.integers(1, world.next_id - 1))
        mended = world.tail.after(last_id, frame_of(last_id) if last_id > 1 else b"", world.batch(0))
        assert ids_of(mended) == list(range(last_id + 1, world.next_id))
        if mended is not None and mended.frames:
            world.tail.keep(mended)
