from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from config.loadtest.arrivals import Closed, Load, Poisson, Ramp
from config.loadtest.plan import Plan
from config.loadtest.progress import line, show
from config.loadtest.report import as_json, as_table
from config.loadtest.results import Results, results_of
from config.loadtest.run import LoadTest
from tests.config.loadtest.server import TinyServer, answer, refusal, serving


def plan(tiny: TinyServer, load: Load, **more: Any) -> Plan:
    return Plan(url=tiny.url, key="sk-test", load=load, **more)


async def carried_out(plan: Plan) -> Results:
    test = LoadTest(plan)
    await test.run()
    assert test.running == 0
    return results_of(test.traces, plan, begun=test.begun, wall_s=test.took_s)


async def test_it_works() -> None:
    async with serving(lambda number: refusal(529, "overloaded_error") if number == 3 else answer(3)) as tiny:
        todo = plan(tiny, Closed(4), requests=20, unique=True)
        results = await carried_out(todo)

    assert (results.requests, results.done, results.failed) == (20, 19, 1)
    assert tiny.most_open <= 4
    assert len(set(tiny.prompts)) == 20
    assert json.loads(as_json(results, todo))["errors"] == {"http 529 overloaded_error": 1}
    table = as_table(results, todo)
    assert "20 requests: 19 done, 1 failed" in table
    assert "1  http 529 overloaded_error" in table
    assert "sk-test" not in table + as_json(results, todo)


async def test_an_open_loop_does_not_wait_for_answers() -> None:
    async with serving(lambda _: answer(2, gap_s=0.2)) as tiny:
        results = await carried_out(plan(tiny, Poisson(200), requests=30))

    assert results.done == 30
    assert tiny.most_open > 15


async def test_a_duration_ends_a_closed_loop() -> None:
    async with serving(lambda _: answer(1, gap_s=0.02)) as tiny:
        results = await carried_out(plan(tiny, Closed(2), duration_s=0.3))

    assert 4 <= results.done <= 40
    assert 0.3 <= results.wall_s < 2


async def test_a_ramp_is_reported_in_steps() -> None:
    async with serving(lambda _: answer(1)) as tiny:
        todo = plan(tiny, Ramp(10, 100), duration_s=0.6)
        results = await carried_out(todo)

    assert sum(step.requests for step in results.steps) == results.requests == results.done
    assert "requests/s" in as_table(results, todo)


async def test_clients_leave_and_read_slowly() -> None:
    async with serving(lambda _: answer(20)) as tiny:
        results = await carried_out(plan(tiny, Closed(5), requests=40, cancel_rate=0.5, max_tokens=10))

    assert results.left + results.done == 40
    assert 8 < results.left < 32


async def test_one_that_is_stopped_keeps_what_it_has() -> None:
    async with serving(lambda number: answer(1) if number < 3 else answer(1, gap_s=9.0)) as tiny:
        test = LoadTest(plan(tiny, Closed(3), requests=50))
        work = asyncio.create_task(test.run())
        async with asyncio.timeout(5):
            while len(test.traces) < 3:
                await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    assert [trace.done for trace in test.traces] == [True] * 3
    assert test.running == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_the_bar_is_for_terminals_alone() -> None:
    async with serving(lambda _: answer(1)) as tiny:
        test = LoadTest(plan(tiny, Closed(1), requests=4))
        await test.run()
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        bar = asyncio.create_task(show(test, stream))
        await asyncio.sleep(0)
        bar.cancel()
        await asyncio.wait([bar])

    assert "████ 4/4 ended, 0 running, 0 failed" in line(test)
    assert line(test) in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[K")
    assert pipe.getvalue() == ""
