"""Driving a load test: starting clients when they are due."""

from __future__ import annotations

import asyncio
import itertools
import random
import time

from config import open_files
from config.loadtest.arrivals import Closed, Load, arrivals
from config.loadtest.client import Server, body_of, converse
from config.loadtest.plan import Plan
from config.loadtest.trace import Behaviour, Trace


class LoadTest:
    """One test in progress: what has ended, and how many clients are at it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.traces: list[Trace] = []
        self.running = 0
        self.begun = 0.0
        self.took_s = 0.0
        self.failed = 0
        self.deltas = 0
        self._server: Server | None = None
        self._numbers = itertools.count()

    @property
    def elapsed_s(self) -> float:
        return self.took_s or (time.perf_counter() - self.begun if self.begun else 0.0)

    async def run(self) -> None:
        """Do the test; cancelled, it leaves what has ended so far. Raise `OSError` when there is no such server."""
        plan = self.plan
        self._server = await asyncio.to_thread(Server.at, plan.url, plan.key)
        open_files.allow_many()
        self.begun = time.perf_counter()
        try:
            async with asyncio.TaskGroup() as clients:
                await self._start(plan.load, clients)
        finally:
            self.took_s = time.perf_counter() - self.begun

    async def _start(self, load: Load, clients: asyncio.TaskGroup) -> None:
        plan = self.plan
        if isinstance(load, Closed):
            count = load.concurrency if plan.requests is None else min(load.concurrency, plan.requests)
            for _ in range(count):
                clients.create_task(self._ask_again_and_again())
            return
        times = arrivals(load, random.Random(plan.seed), duration_s=plan.duration_s)
        for at in itertools.islice(times, plan.requests):
            due = self.begun + at
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            # Timed from when it was due: a client that starts late is no excuse for the server.
            clients.create_task(self._ask(next(self._numbers), due))

    async def _ask_again_and_again(self) -> None:
        plan = self.plan
        until = None if plan.duration_s is None else self.begun + plan.duration_s
        while until is None or time.perf_counter() < until:
            number = next(self._numbers)
            if plan.requests is not None and number >= plan.requests:
                return
            await self._ask(number, time.perf_counter())

    async def _ask(self, number: int, started: float) -> None:
        plan = self.plan
        assert self._server is not None
        behaviour = Behaviour.drawn(
            random.Random(f"{plan.seed}-{number}"),
            cancel_rate=plan.cancel_rate,
            slow_rate=plan.slow_rate,
            max_tokens=plan.max_tokens,
        )
        trace = Trace(started=started, behaviour=behaviour)
        body = body_of(model=plan.model, prompt=plan.prompt_of(number), max_tokens=plan.max_tokens)
        self.running += 1
        try:
            await converse(self._server, body, trace, timeout_s=plan.timeout_s)
        finally:
            self.running -= 1
        self.traces.append(trace)
        self.deltas += trace.deltas
        self.failed += bool(trace.error)
