"""What processes tell of single messages in their heartbeats, for whoever watches: exceptions alone, so it is little.

A gateway names the readers that do not take what is written for them, a worker the messages that safety holds, and how
far it is with the prompts that it computes just now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

SLOW_S = 1.0  # a socket that took nothing for so long is worth a word
MOST = 200  # messages that one process names

BLOCKED, HELD, PREFILLS = "blocked", "held", "prefills"  # the fields of a heartbeat; the last is of the engine's load


@dataclass(frozen=True, slots=True)
class Blocked:
    """A reader whose socket takes nothing: the last event that was written for it, and since when, in seconds."""

    cursor: int
    blocked_s: float


@dataclass(frozen=True, slots=True)
class CloseUps:
    """What all processes tell: the slowest reader of each message, the tokens that safety holds, parts of prompts."""

    blocked: dict[str, Blocked] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    prefilled: dict[str, float] = field(default_factory=dict)  # 0 to 1


def blocked_field(readers: Iterable[tuple[str, int, float]]) -> dict[str, Any]:
    """Return what a gateway adds to its heartbeat: nothing, where no reader of (message, cursor, seconds) is slow."""
    slow = sorted((reader for reader in readers if reader[2] >= SLOW_S), key=lambda reader: -reader[2])[:MOST]
    return {BLOCKED: [[name, cursor, round(blocked_s, 1)] for name, cursor, blocked_s in slow]} if slow else {}


def held_field(messages: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Return what a worker adds to its heartbeat: nothing, where no message of (id, tokens held) waits for safety."""
    held = sorted((message for message in messages if message[1]), key=lambda message: -message[1])[:MOST]
    return {HELD: [list(message) for message in held]} if held else {}


def close_ups(gateways: Iterable[Mapping[str, Any]], workers: Iterable[Mapping[str, Any]]) -> CloseUps:
    """Read heartbeats; a process of an older version tells nothing."""
    blocked: dict[str, Blocked] = {}
    for about in gateways:
        for name, cursor, blocked_s in about.get(BLOCKED, ()):
            if name not in blocked or cursor < blocked[name].cursor:
                blocked[name] = Blocked(cursor, blocked_s)
    held: dict[str, int] = {}
    prefilled: dict[str, float] = {}
    for about in workers:
        held.update(about.get(HELD, ()))
        prefilled |= {name: computed / of for name, computed, of in about.get(PREFILLS, ()) if of}
    return CloseUps(blocked, held, prefilled)
