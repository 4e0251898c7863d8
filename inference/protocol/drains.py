"""Asking one process to drain: a note in Redis, under `keys.drain`, which it looks for with each heartbeat.

A note names the moment at which the process began. Its id, a host's name and a number, a successor may have as well: in
a container it does.
"""

from __future__ import annotations

NOTE_S = 60  # a process that has not looked by then is not there, or hangs
# With what a process ends that was asked to drain, so that `serve` does not start it again. 0 is an end by a signal,
# after which it does. Numbers up to 78 have meanings of their own.
EXIT_STATUS = 85


def note(started_at: float) -> bytes:
    """Return the note for the process that began then, as its heartbeat has it."""
    return repr(float(started_at)).encode()
