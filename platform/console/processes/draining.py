"""Asking processes to drain, and waiting until they have."""

from __future__ import annotations

import time
from collections.abc import Iterable

import redis

from console.processes.running import Process, look
from inference.protocol import drains, keys

LOOK_S = 0.25


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


def left_after(client: redis.Redis, processes: Iterable[Process], patience_s: float) -> list[str]:
    """Wait until processes have ended; return the ids of those that have not."""
    waited_for = {process.id: process.started_at for process in processes}
    give_up = time.monotonic() + patience_s
    while True:
        alive = {process.id: process.started_at for process in look(client).alive}
        left = [id for id, started_at in waited_for.items() if alive.get(id, 0.0) == started_at]
        if not left or time.monotonic() > give_up:
            return left
        time.sleep(LOOK_S)  # a process that ends tells nobody; its heartbeat goes
