from __future__ import annotations

import random

import pytest

from config.loadtest.trace import Behaviour, Trace
from config.loadtest.wire import decode_event


def text(said: str) -> bytes:
    return b'{"type":"content_block_delta","delta":{"text":"%b"}}' % said.encode()


END = b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}'
STOP = b'{"type":"message_stop"}'


def traced(*events: tuple[float, bytes], behaviour: Behaviour | None = None) -> Trace:
    trace = Trace(started=10.0, behaviour=behaviour or Behaviour())
    for now, data in events:
        trace.see(decode_event(data), now)
        trace.ended = now
    return trace


def test_it_works() -> None:
    trace = traced((10.1, text("")), (10.2, text("a")), (10.3, text("b")), (10.6, text("c")), (10.7, END), (10.8, STOP))

    assert trace.done
    assert trace.ttft == pytest.approx(0.2), "the empty delta does not count"
    assert list(trace.gaps) == pytest.approx([0.1, 0.3])
    assert trace.tpot == pytest.approx(0.4 / 4), "by the server's count of tokens, not by events"
    assert trace.total == pytest.approx(0.8)


def test_a_tool_call_counts_as_a_delta() -> None:
    assert traced((10.5, b'{"type":"content_block_delta","delta":{"partial_json":"{"}}')).ttft == pytest.approx(0.5)


def test_without_a_count_of_tokens_events_are_counted() -> None:
    assert traced((10.0, text("a")), (10.2, text("b")), (10.4, text("c"))).tpot == pytest.approx(0.2)


def test_one_token_has_no_pace() -> None:
    assert traced((10.0, text("a"))).tpot is None


def test_an_error_event_ends_it() -> None:
    trace = traced((10.1, text("a")), (10.2, b'{"type":"error","error":{"type":"api_error","message":"x"}}'))

    assert (trace.terminal, trace.done, trace.error) == (True, False, "stream api_error")


@pytest.mark.parametrize("reason", ["cancelled", "server_shutdown"])
def test_an_answer_cut_short_is_an_error(reason: str) -> None:
    trace = traced((10.1, text("a")), (10.2, END.replace(b"end_turn", reason.encode())), (10.3, STOP))

    assert (trace.done, trace.error) == (False, f"stop_reason {reason}")


def test_a_slow_reader_does_not_measure_the_server() -> None:
    trace = traced((10.1, text("a")), (10.3, STOP), behaviour=Behaviour(slow=True))

    assert (trace.done, trace.measures) == (True, False)


def draw(number: int, *, cancel_rate: float = 0.2, slow_rate: float = 0.1) -> Behaviour:
    rng = random.Random(number)
    return Behaviour.drawn(rng, cancel_rate=cancel_rate, slow_rate=slow_rate, max_tokens=64)


def test_behaviour_is_drawn_in_the_shares_asked_for() -> None:
    drawn = [draw(number) for number in range(2000)]

    assert sum(b.leave_after is not None for b in drawn) / 2000 == pytest.approx(0.2, abs=0.03)
    assert sum(b.slow for b in drawn) / 2000 == pytest.approx(0.1, abs=0.03)
    assert {b.leave_after for b in drawn if b.leave_after is not None} <= set(range(1, 33))


def test_one_share_does_not_change_who_the_other_falls_on() -> None:
    assert [draw(n).slow for n in range(200)] == [draw(n, cancel_rate=0.9).slow for n in range(200)]


def test_the_shares_nobody_and_everybody() -> None:
    assert all(draw(n, cancel_rate=0, slow_rate=0) == Behaviour() for n in range(50))
    assert all(draw(n, slow_rate=1).slow for n in range(50))
