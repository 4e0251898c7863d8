"""Asking processes to drain, and waiting until they have."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import redis

from console.processes.running import Process, look
from inference.protocol import drains, keys

LOOK_S = 0.25
SILENT_S = 15.0  # a step of the engine may take longer than a heartbeat is fresh


class CannotDrain(Exception):
    """Raised for a process that a request to drain would not reach; the message says why."""


def check(process: Process) -> None:
    """Raise `CannotDrain` where asking would not reach a process."""
    if not process.fresh:
        raise CannotDrain(f"There is nobody to ask: {process.id} has been silent for {process.silent}.")
    if not process.can_drain or process.started_at is None:
        raise CannotDrain(f"The version of {process.id} cannot be asked. SIGTERM ends it in order.")


def ask(client: redis.Redis, process: Process) -> None:
    """Ask a process to drain, unless it does so already."""
    if process.draining:
        return
    check(process)
    client.set(keys.drain(process.id), drains.note(process.started_at or 0.0), ex=drains.NOTE_S)


@dataclass(frozen=True, slots=True)
class Waited:
    """The ids of processes that have not left: some still run, others fell silent."""

    running: list[str]
    silent: list[str]


def wait_for(client: redis.Redis, processes: Iterable[Process], patience_s: float) -> Waited:
    """Wait until processes have left, or have been silent for long.

    One that ends in order takes its heartbeat off the list as the last thing it does. One that died leaves an old one;
    so does, for a while, one that is held up, and it is waited for.
    """
    waited_for = {(process.id, process.started_at) for process in processes}  # a successor may have the same id
    give_up = time.monotonic() + patience_s
    while True:
        now = look(client)
        there = [p for p in (*now.workers, *now.gateways) if (p.id, p.started_at) in waited_for]
        silent = [process.id for process in there if process.age_s > SILENT_S]
        running = [process.id for process in there if process.id not in silent]
        if not running or time.monotonic() > give_up:
            return Waited(running, silent)
        time.sleep(LOOK_S)  # leaving is told to nobody
