"""Admission: the one place where a request is let in, or refused before it costs anything."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from accounts.callers import Caller, Quota
from accounts.terms import LIMITS
from common.errors import RateLimited
from inference.protocol.quotas import Period, books, moment_of
from quotas.headers import Form, retry_headers
from quotas.scripts import ADMIT, GIVE_BACK
from quotas.standings import Level, Need, Standing

logger = logging.getLogger(__name__)

Run = Callable[[str, Sequence[str], Sequence[Any]], Awaitable[Any]]  # a script, its keys and arguments
Note = Callable[[Standing], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose limits they are."""

    level: Level
    id: str
    quota: Quota

    @property
    def limits(self) -> dict[str, int]:
        return {name: limit for name in LIMITS if (limit := getattr(self.quota, name)) is not None}


async def give_back(run: Run, organization: str, message_id: str) -> None:
    """Give back whatever was taken for a message, if anything was."""
    await run(GIVE_BACK, books(organization), (message_id,))


def limited(caller: Caller) -> list[Subject]:
    """Return those who have limits: the caller's key, its organisation, both or none."""
    key = Subject("key", caller.key, caller.key_quota)
    organization = Subject("organisation", caller.organization, caller.organization_quota)
    return [subject for subject in (key, organization) if subject.limits]


async def admit(
    run: Run,
    caller: Caller,
    *,
    message_id: str,
    input_tokens: int,
    max_tokens: int,
    created_at: float,
    lease_ms: int,
    form: Form,
    note: Note,
) -> dict[str, str]:
    """Admit a request, reserving what it may use at most, or raise `RateLimited`; return headers that say what is left.

    `form` makes them. What is reserved lapses after `lease_ms` without a renewal. `note` is told of each limit
    that had no room, in shadow or not.
    """
    subjects = limited(caller)
    if not subjects:
        return {}
    period = Period.of(created_at)
    head = (message_id, input_tokens, max_tokens, period.day, period.month, lease_ms)
    arguments = [*head, *(argument for subject in subjects for argument in _arguments(subject))]
    admitted, now_ms, *states = await run(ADMIT, books(caller.organization), arguments)
    standings = _standings(subjects, states)
    need = Need(input_tokens=input_tokens, max_tokens=max_tokens, moment=moment_of(created_at))
    headers = form([s for s in standings if not s.shadow], need, moment_of(now_ms / 1000))
    lacking = [s for s in standings if s.without_room and s.lacks(need) and s.shadow == bool(admitted)]
    for standing in lacking:
        note(standing)
    if not admitted:
        raise _refusal(lacking, need, headers)
    for standing in lacking:
        logger.info("%s: in shadow, it would be refused: %s", message_id, standing.refusal(need))
    return headers


def _arguments(subject: Subject) -> list[str | int]:
    limits = subject.limits
    return [subject.id, int(subject.quota.shadow), *(limits.get(name, "") for name in LIMITS)]


def _standings(subjects: Sequence[Subject], states: Sequence[int]) -> list[Standing]:
    """Read what the script says of each limit."""
    found, rest = [], iter(states)
    for subject in subjects:
        has_room = bool(next(rest))
        for name, limit in subject.limits.items():
            found.append(
                Standing(
                    level=subject.level,
                    name=name,
                    limit=limit,
                    settled=next(rest),
                    reserved=next(rest),
                    shadow=subject.quota.shadow,
                    without_room=not has_room,
                )
            )
    return found


def _refusal(lacking: Sequence[Standing], need: Need, headers: dict[str, str]) -> RateLimited:
    """Return the error that tells of the limit which is in the way for longest."""
    worst = max(lacking, key=lambda standing: standing.wait_ms(need) or math.inf)
    code = "insufficient_quota" if worst.is_budget and worst.is_hopeless(need) else None
    return RateLimited(worst.refusal(need), code=code, headers=headers | retry_headers(lacking, need))
