"""Admission: the one place where a request is let in, or refused before it costs anything."""

from __future__ import annotations

from dataclasses import dataclass, field

from accounts.keys import Caller


@dataclass(frozen=True, slots=True)
class Admission:
    """What was granted: headers that tell the caller what is left."""

    headers: dict[str, str] = field(default_factory=dict)


async def admit(caller: Caller, *, message_id: str, input_tokens: int, max_tokens: int) -> Admission:
    """Admit a request, or raise `RateLimited`. No limits are kept yet, so all pass."""
    return Admission()
