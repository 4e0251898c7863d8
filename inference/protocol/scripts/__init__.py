"""The Lua scripts: each is one atomic step on one hash slot, and each runs on Redis 6.2.

Times come from Redis itself (`TIME`), so that processes on different machines agree on them.

A Redis that is full refuses a script at its first write, unless that one frees memory. So the scripts that end things,
and those that keep a worker going until it has, begin with a removal, if need be of nothing.
"""

from __future__ import annotations

import functools
import hashlib

from inference.protocol.scripts.log import APPEND, CANCEL, FETCHED, OPEN, TAKE, UNOPEN, USAGE
from inference.protocol.scripts.minutes import ADD_MINUTES, STORED
from inference.protocol.scripts.overdue import CLAIM_IDLE, CLAIM_LOST, CLAIM_OVERDUE
from inference.protocol.scripts.queue import CLAIM, ENQUEUE, QUEUED, RECLAIM, RELEASE, RENEW, SETTLE
from inference.protocol.scripts.readers import JOIN, KEEP, LEAVE
from inference.protocol.scripts.telling import ADD_COUNTS, BEAT, REPORT, SPOOL

__all__ = [
    "ADD_COUNTS",
    "ADD_MINUTES",
    "APPEND",
    "BEAT",
    "CANCEL",
    "CLAIM",
    "CLAIM_IDLE",
    "CLAIM_LOST",
    "CLAIM_OVERDUE",
    "ENQUEUE",
    "FETCHED",
    "JOIN",
    "KEEP",
    "LEAVE",
    "OPEN",
    "QUEUED",
    "RECLAIM",
    "RELEASE",
    "RENEW",
    "REPORT",
    "SETTLE",
    "SPOOL",
    "STORED",
    "TAKE",
    "UNOPEN",
    "USAGE",
    "sha_of",
]


@functools.cache
def sha_of(script: str) -> str:
    """Return what EVALSHA calls a script."""
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
