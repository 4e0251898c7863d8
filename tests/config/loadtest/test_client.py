from __future__ import annotations

import asyncio

import pytest

from config.loadtest.client import Server, body_of, converse
from config.loadtest.trace import Behaviour, Trace
from config.loadtest.wire import Delta, Event
from tests.config.loadtest.server import (
    HEAD,
    LAST_CHUNK,
    Step,
    TinyServer,
    answer,
    chunk,
    delta,
    ending,
    refusal,
    serving,
)

BODY = body_of(model="default", prompt="Why?", max_tokens=5)


async def ask(tiny: TinyServer, *, behaviour: Behaviour | None = None, timeout_s: float = 5.0) -> Trace:
    trace = Trace(behaviour=behaviour or Behaviour())
    await converse(Server.at(tiny.url, "sk-test"), BODY, trace, timeout_s=timeout_s)
    return trace


async def test_it_works() -> None:
    async with serving(lambda _: answer(4, gap_s=0.02, tokens=7)) as tiny:
        trace = await ask(tiny)

    assert (trace.error, trace.done, trace.deltas, trace.tokens) == ("", True, 4, 7)
    assert 0.02 <= trace.ttft < 0.5
    assert len(trace.gaps) == 3
    assert tiny.keys == ["sk-test"]
    assert tiny.prompts == ["Why?"]


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (refusal(529, "overloaded_error"), "http 529 overloaded_error"),
        ([b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>"], "http 502"),
        ([], "no response"),
        ([b"SSH-2.0 what\r\n\r\n"], "malformed response"),
        ([HEAD, b"6\r\ndata: \r\n", b"9\r\ndata: x\n\n\r\n"], "malformed response"),
        ([HEAD, delta("a")], "no terminal event"),
        ([HEAD, delta("a"), LAST_CHUNK], "no terminal event"),
        ([HEAD, delta("a"), ending(1)], "cut off after its last event"),
        ([HEAD, chunk("error", error={"type": "api_error", "message": "x"}), LAST_CHUNK], "stream api_error"),
        ([HEAD, delta("a"), ending(1, "server_shutdown"), LAST_CHUNK], "stop_reason server_shutdown"),
        ([HEAD, delta("a"), 9.0], "timeout"),
    ],
)
async def test_it_tells_errors_apart(script: list[Step], error: str) -> None:
    async with serving(lambda _: script) as tiny:
        trace = await ask(tiny, timeout_s=0.3)

    assert (trace.error, trace.done) == (error, False)


async def test_it_reads_another_form_of_events() -> None:
    def decode(data: bytes) -> Event:
        if data == b"[DONE]":
            return Event(type="message_stop")
        return Event(type="content_block_delta", delta=Delta(text=data.decode()))

    trace = Trace()
    script: list[Step] = [HEAD, b"9\r\ndata: x\n\n\r\n", b"e\r\ndata: [DONE]\n\n\r\n", LAST_CHUNK]
    async with serving(lambda _: script) as tiny:
        server = Server.at(tiny.url, "sk-test", path="/v1/chat/completions", decode=decode)
        await converse(server, BODY, trace, timeout_s=5)

    assert (trace.error, trace.done, trace.deltas) == ("", True, 1)


async def test_nobody_there() -> None:
    async with serving(lambda _: []) as tiny:
        pass

    assert (await ask(tiny)).error == "connection: Connection refused"


async def test_it_leaves_when_it_is_to() -> None:
    async with serving(lambda _: answer(500, gap_s=0.005)) as tiny:
        trace = await ask(tiny, behaviour=Behaviour(leave_after=3))
        async with asyncio.timeout(2):
            while tiny.open:
                await asyncio.sleep(0.01)

    assert (trace.left, trace.deltas, trace.error, trace.done) == (True, 3, "", False)


async def test_a_slow_reader_makes_the_server_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("config.loadtest.client.SLOW_PAUSE_S", 0.02)
    script = [HEAD, *(delta("x" * 3000) for _ in range(100)), ending(100), LAST_CHUNK]
    async with serving(lambda _: script) as tiny:
        fast = await ask(tiny)
        slow = await ask(tiny, behaviour=Behaviour(slow=True))

    assert (slow.done, slow.deltas) == (True, 100)
    assert slow.total > fast.total + 0.1
