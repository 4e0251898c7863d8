"""Comparing what quotas have counted with the records, and setting it right.

Both count a message in the minute in which it came, so that a minute whose messages have all ended and been recorded
can be compared while others run. What is wrong then was lost with Redis' last second, or is a fault of ours: it is
told as a metric. A Redis that has lost everything is given what the records say.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, cast

import redis

from accounts.models import Organization
from common.counts import tell
from inference.protocol import keys
from inference.protocol.metrics import QUOTA_CHECKS, QUOTA_DRIFT, Tally
from inference.protocol.quotas import MINUTE_S, Period, minute, moment_of, reserved, spent
from inference.protocol.settings import Settings
from quotas.ledger import used_before, used_by_minute
from quotas.scripts import CORRECT, SEED

STORED_S = 60  # within which a message that ended is in the records, unless these are behind
FIRST_MINUTES = 60  # that are compared where nobody knows which were
COMPARABLE_MINUTES = MINUTE_S // 60 - 60

COMPARED = "sluice:quotas:compared"  # the minute up to which all was compared

logger = logging.getLogger(__name__)


def reconcile(client: redis.Redis, settings: Settings, *, until: int | None = None) -> int | None:
    """Compare the minutes since the last time; return how many tokens were wrong, None while the records are behind.

    `until` is the first minute that is left out; by default one whose messages may still run.
    """
    now = client.time()[0]
    if _records_are_behind(client, now):
        _tell(client, "behind", 0)
        return None
    last = Period.of(now - _longest_s(settings)).minute if until is None else until
    compared = cast(bytes | None, client.get(COMPARED))
    first = max(int(compared or last - FIRST_MINUTES), now // 60 - COMPARABLE_MINUTES)
    organizations = sorted(Organization.objects.values_list("id", flat=True))
    for organization in organizations:
        _seed(client, organization, settings, first)
    drift = sum(_compare(client, organizations, first, last))
    client.set(COMPARED, max(first, last))
    _tell(client, "ok", drift)
    return drift


def forget_old_periods(client: redis.Redis) -> None:
    """Drop the sums of days and months that no limit looks at any more."""
    period = Period.of(client.time()[0])
    for organization in Organization.objects.values_list("id", flat=True):
        for name in (spent(organization), reserved(organization)):
            fields = [field.decode() for field in cast(list[bytes], client.hkeys(name))]
            if old := [field for field in fields if _is_old(field.rpartition("|")[2], period)]:
                client.hdel(name, *old)


def _is_old(name: str, now: Period) -> bool:
    kind, number = name[:1], name[1:]
    if not number.isdecimal():
        return False
    return {"d": int(number) < now.day - 1, "m": int(number) < now.month}.get(kind, False)


def _longest_s(settings: Settings) -> float:
    """Return after how long a message has ended, been accounted for, and come into the records."""
    return settings.request_timeout_s + settings.queue_timeout_s + 2 * settings.lease_s + STORED_S


def _records_are_behind(client: redis.Redis, now: int) -> bool:
    """Say whether an account waits that should be in the records by now."""
    for model in cast(set[bytes], client.smembers(keys.MODELS)):
        oldest = cast(list[tuple[bytes, Any]], client.xrange(keys.settlements(model.decode()), count=1))
        if oldest and int(oldest[0][0].partition(b"-")[0]) < (now - STORED_S) * 1000:
            return True
    return False


def _seed(client: redis.Redis, organization: str, settings: Settings, first: int) -> None:
    """Add what an organisation used before anything was counted here."""
    since, seeded = cast(list[bytes | None], client.hmget(spent(organization), ["since", "seeded"]))
    if seeded is not None:
        return
    counted_from = int(since) - int(_longest_s(settings)) // 60 if since else first
    start = _moment(min(first, counted_from))
    period = Period.of(client.time()[0])
    today = moment_of(period.day * 86_400).date()
    sums = {
        f"d{period.day}": used_before(organization, start, since=today),
        f"m{period.month}": used_before(organization, start, since=today.replace(day=1)),
        "total": used_before(organization, start),
    }
    fields = [(f"{subject}|{what}", tokens) for what, used in sums.items() for subject, tokens in used.items()]
    arguments = [argument for pair in fields for argument in pair]
    if client.eval(SEED, 1, spent(organization), first, *arguments) and fields:
        logger.info("%s: %d tokens that it used before are counted", organization, sums["total"][organization])


def _compare(client: redis.Redis, organizations: list[str], first: int, last: int) -> Iterator[int]:
    """Set each minute of each organisation right; yield by how much it was wrong."""
    recorded = used_by_minute(_moment(first), _moment(last)) if last > first else {}
    numbers = range(first, last)
    for organization in organizations:
        with client.pipeline(transaction=False) as pipe:
            for number in numbers:
                pipe.exists(minute(organization, number))
            counted = dict(zip(numbers, pipe.execute(), strict=True))
        used = recorded.get(organization, {})
        for number in numbers:
            if counted[number] or _moment(number) in used:
                yield _correct(client, organization, number, used.get(_moment(number), Counter()))


def _correct(client: redis.Redis, organization: str, number: int, used: Counter[str]) -> int:
    period = Period.of(number * 60)
    arguments = [argument for pair in used.items() for argument in pair]
    names = (spent(organization), minute(organization, number))
    found: list[Any] = client.eval(CORRECT, 2, *names, period.day, period.month, MINUTE_S, *arguments)
    corrections = dict(zip(found[::2], map(abs, found[1::2]), strict=True))
    in_all: int = corrections.pop(organization.encode(), 0)
    wrong = max(in_all, sum(corrections.values()))
    if wrong:
        logger.warning("%s: quotas were wrong by %d tokens in minute %d", organization, wrong, number)
    return wrong


def _moment(number: int) -> datetime:
    return moment_of(number * 60)


def _tell(client: redis.Redis, result: Literal["ok", "behind"], drift: int) -> None:
    tally = Tally()
    tally.count(QUOTA_CHECKS, result)
    tally.count(QUOTA_DRIFT, by=drift)
    tell(client, "reconcile", tally)
