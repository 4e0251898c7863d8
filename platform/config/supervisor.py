"""Keeps programs running as children, and leaves none of them behind."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from config.guard import Guard, kill_group
from config.leash import leashed
from config.output import LineReader, Output
from inference.protocol.drains import EXIT_STATUS
from inference.protocol.settings import ROOT

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
SETTLED_S = 10.0  # a child that lived for so long died of something new
QUICK_DEATHS = 3  # after so many in a row we say more than that it died
DRAINED = "was drained and has ended; `serve`, started again, has it again"
HURRY_S = 0.5  # what a child is left with after a second Ctrl-C

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to run. Programs of a lower `stage` are stopped first; `grace_s` is the time they get for it."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    stage: int = 0
    grace_s: float = 10.0
    hint: str = ""
    pass_fds: tuple[int, ...] = ()


def pause_after(quick_deaths: int) -> float:
    """Return how long to wait before starting again what died so often in a row."""
    doublings = min(max(quick_deaths - 1, 0), 10)  # a float has an end
    return min(FIRST_PAUSE_S * (1 << doublings), LONGEST_PAUSE_S)


class Child:
    """One program, started again whenever it dies, until it is told to stop, or an operator has had it drained."""

    def __init__(self, program: Program, output: Output, guard: Guard, hurry: asyncio.Event) -> None:
        self.program = program
        self.quick_deaths = 0
        self._output = output
        self._guard = guard
        self._hurry = hurry
        self._stop = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._task = asyncio.create_task(self._keep_running())

    async def stop(self) -> None:
        """End the program: SIGTERM, then SIGKILL for it and all it started."""
        self._stop.set()
        self._signal(signal.SIGTERM)
        if not await self._ends_within(self.program.grace_s):
            seconds = "" if self._hurry.is_set() else f" after {self.program.grace_s:g} s"
            self._output.line("serve", f"{self.program.name} did not stop{seconds}: killing it")
            self._signal(signal.SIGKILL)
        await self._task

    async def _ends_within(self, seconds: float) -> bool:
        hurry = asyncio.ensure_future(self._hurry.wait())
        await asyncio.wait({self._task, hurry}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if hurry.done():
            await asyncio.wait({self._task}, timeout=HURRY_S)
        hurry.cancel()
        return self._task.done()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                pass  # it is dead, and we hear of it in a moment

    async def _keep_running(self) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                status = await self._run()
                ending = _describe(status)
                if status == EXIT_STATUS:
                    self._output.line("serve", f"{self.program.name} {DRAINED}")
                    return
            except OSError as error:  # no memory or no processes left, say: that may pass
                ending = f"could not start ({error})"
            if not self._stop.is_set():
                await self._pause(ending, time.monotonic() - begun)

    async def _pause(self, ending: str, lived: float) -> None:
        self.quick_deaths = 0 if lived >= SETTLED_S else self.quick_deaths + 1
        pause = pause_after(self.quick_deaths)
        name = self.program.name
        self._output.line("serve", f"{name} {ending} after {lived:.1f} s; starting it again in {pause:g} s")
        if self.quick_deaths == QUICK_DEATHS:
            hint = self.program.hint or "Its last lines above say why."
            self._output.line("serve", f"{name} died {QUICK_DEATHS} times in a row. {hint}")
        try:
            await asyncio.wait_for(self._stop.wait(), pause)
        except TimeoutError:
            pass

    async def _run(self) -> int:
        """Run the program once; return its exit status."""
        # A pipe of our own: with asyncio's, `wait` can hang as long as a grandchild holds the other end.
        read_end, write_end = os.pipe()
        transport, lines = await asyncio.get_running_loop().connect_read_pipe(
            lambda: LineReader(self.program.name, self._output), os.fdopen(read_end, "rb", 0)
        )
        try:
            transport.pause_reading()  # so that whoever has seen a line of a child may count on the guard
            try:
                self._process = process = await self._spawn(write_end)
                self._guard.watch(process.pid, self.program.grace_s)
                transport.resume_reading()
            finally:
                os.close(write_end)
            if self._stop.is_set():
                self._signal(signal.SIGTERM)
            status = await process.wait()
            kill_group(process.pid)
            self._guard.forget(process.pid)
            await _at_most(1.0, lines.ended.wait())
        finally:
            transport.close()
        return status

    async def _spawn(self, output: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *leashed(self.program.command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(self.program.environment),
            cwd=ROOT,
            pass_fds=self.program.pass_fds,
            umask=0o077,  # what the children write is state
            start_new_session=True,  # a Ctrl-C in our terminal is for us alone; we stop the children in order
        )


class Supervisor:
    """A set of children, stopped stage by stage when the block ends; SIGINT or SIGTERM set `stopping`."""

    def __init__(self, output: Output) -> None:
        self.stopping = asyncio.Event()
        self._output = output
        self._guard = Guard()
        self._hurry = asyncio.Event()
        self._children: list[Child] = []
        self._signals: list[signal.Signals] = []

    def start(self, program: Program) -> Child:
        child = Child(program, self._output, self._guard, self._hurry)
        self._children.append(child)
        return child

    async def unless_stopped(self, awaitable: Awaitable[T]) -> T | None:
        """Wait for something, but no longer than until we are to stop."""
        work = asyncio.ensure_future(awaitable)
        stopping = asyncio.ensure_future(self.stopping.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for future in (work, stopping):
            future.cancel()  # does nothing to the one that is done
        await asyncio.wait({work, stopping})
        return None if work.cancelled() else work.result()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and means it
                loop.add_signal_handler(number, self._on_signal)
                self._signals.append(number)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        for stage in sorted({child.program.stage for child in self._children}):
            members = [child for child in self._children if child.program.stage == stage]
            self._output.line("serve", f"stopping {', '.join(child.program.name for child in members)}")
            await asyncio.gather(*(child.stop() for child in members))
        self._guard.close()
        for number in self._signals:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _on_signal(self) -> None:
        if self.stopping.is_set():
            self._hurry.set()
        else:
            self._output.line("serve", "stopping; another Ctrl-C hastens")
            self.stopping.set()


def _describe(status: int) -> str:
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal has no name
        return f"was ended by signal {-status}"


async def _at_most(seconds: float, awaitable: Awaitable[object]) -> None:
    try:
        await asyncio.wait_for(awaitable, seconds)
    except TimeoutError:
        pass
