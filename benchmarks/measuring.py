"""Windows of time over a loaded server: events, CPU time, memory."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from processes import HERE, Target, busy_s, cpu_s, rss

OPENED_PER_S = 100.0
SETTLE_S = 1.0
SLACK_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Window:
    """What was measured while streams ran."""

    streams: int
    rate: float  # events a second that each stream was to give
    seconds: float
    events: int
    cpu_us: float  # of the server, per event
    rss_bytes: int  # of the server
    tbt_p50_ms: float
    tbt_p99_ms: float
    tbt_max_ms: float
    shares: dict[str, float]  # of a core, by process
    foreign: float  # cores that processes used which are none of ours: the more, the less the figures say
    errors: dict[str, int]

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds


class Client:
    """`streams.py` in a process of its own, with all its streams begun."""

    def __init__(self, process: subprocess.Popen[str], target: Target, streams: int, rate: float) -> None:
        self._process, self._target, self._streams, self._rate = process, target, streams, rate

    def window(self, seconds: float, during: Callable[[], None] | None = None) -> Window:
        """Measure for so long, or for as long as `during` takes."""
        processes = {"server": self._target.servers, "client": (self._process.pid,)}
        processes |= {name: (pid,) for name, pid in self._target.others.items()}
        self._ask()
        before, busy = {name: sum(map(cpu_s, pids)) for name, pids in processes.items()}, busy_s()
        during() if during else time.sleep(seconds)
        used = {name: sum(map(cpu_s, pids)) - before[name] for name, pids in processes.items()}
        busy = busy_s() - busy
        figures = self._ask()
        if not figures["events"]:
            raise RuntimeError(f"no events came: {figures['errors']}")
        return Window(
            streams=self._streams,
            rate=self._rate,
            seconds=figures["seconds"],
            events=figures["events"],
            cpu_us=used["server"] / figures["events"] * 1e6,
            rss_bytes=sum(map(rss, self._target.servers)),
            tbt_p50_ms=figures["tbt_p50_ms"],
            tbt_p99_ms=figures["tbt_p99_ms"],
            tbt_max_ms=figures["tbt_max_ms"],
            shares={name: cpu / figures["seconds"] for name, cpu in used.items()},
            foreign=max(0.0, (busy - sum(used.values())) / figures["seconds"]),
            errors=figures["errors"],
        )

    def _ask(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.read()

    def read(self) -> dict[str, Any]:
        """Return the next line of figures."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the load client has died")
        figures: dict[str, Any] = json.loads(line)
        return figures


def tokens_for(streams: int, rate: float, seconds: float) -> int:
    """Return how long an answer must be to outlast the opening of all streams and the measuring."""
    return int(rate * (streams / OPENED_PER_S + SETTLE_S + seconds + SLACK_S))


@contextlib.contextmanager
def streaming(target: Target, *, streams: int, rate: float, seconds: float) -> Iterator[Client]:
    """Hold streams open for about `seconds`."""
    command = [sys.executable, str(HERE / "streams.py"), "--url", target.url, "--key", target.key]
    command += ["--streams", str(streams), "--per-second", str(OPENED_PER_S)]
    command += ["--max-tokens", str(tokens_for(streams, rate, seconds))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        client = Client(process, target, streams, rate)
        begun = client.read()
        if not begun["open"]:
            raise RuntimeError(f"none of {streams} streams began: {begun['errors']}")
        if begun["open"] < streams:
            print(f"only {begun['open']} of {streams} streams began: {begun['errors']}", file=sys.stderr)
        time.sleep(SETTLE_S)
        yield client
    finally:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
