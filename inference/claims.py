"""What a worker learns when it claims a request and takes its log's pen."""

from __future__ import annotations

from dataclasses import dataclass, field

from inference.protocol.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A request that this worker has claimed, still encoded. `age_ms` is the time since it came into the queue.

    `attempt` counts its claims; `pen` is this claim's own number, higher than that of any earlier one: who writes to
    the log with a lower pen than another had is fenced off.
    """

    id: str
    attempt: int
    pen: int
    lost: int = 0  # how many leases on it have lapsed
    age_ms: float
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A log taken over: a cancel reason or "", how far the message is, and its time in the queue."""

    cancel: str = ""
    progress: Progress = field(default_factory=Progress)
    waited_ms: float
