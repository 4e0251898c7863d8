"""What a client feels."""

from __future__ import annotations

import pytest

from streaming import timing
from streaming.timing import Stopwatch


class Clock:
    now = 10.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


def test_it_works(clock: Clock) -> None:
    watch = Stopwatch(started=clock.now)
    for gap, deltas in ((0.1, 0), (0.05, 1), (0.02, 1), (0.04, 2)):
        clock.now += gap
        watch.wrote(100, deltas)
    assert watch.ttft_ms == pytest.approx(150)
    assert watch.stream_ms == pytest.approx(60)
    assert watch.tbt_p99_ms == pytest.approx(40)
    assert watch.total_ms == pytest.approx(210)
    assert watch.bytes_sent == 400


def test_nothing_written_has_no_times(clock: Clock) -> None:
    watch = Stopwatch(started=clock.now)
    assert (watch.ttft_ms, watch.stream_ms, watch.tbt_p99_ms) == (None, None, None)


def test_stages_follow_each_other(clock: Clock) -> None:
    watch = Stopwatch(started=clock.now)
    for name, took in (("auth", 0.001), ("admission", 0.002)):
        clock.now += took
        watch.stage(name)
    assert watch.stages == {"auth_ms": pytest.approx(1), "admission_ms": pytest.approx(2)}
