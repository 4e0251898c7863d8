"""From the minutes in Redis to rows, finer and coarser: nothing is lost while the database is away, or counted twice.

A minute's counts only grow, in its hash as in its rows: a row takes whichever is more, count by count. So it does not
matter who read the hash first, or how often it is stored; and a Redis that came back without its last seconds takes
nothing away. The rows of the steps around it are the sum of the finer ones. The hash stays for longer than anything of
its minute can still come.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import cast

import msgspec
import redis
from django.db import transaction

from inference.protocol import keys, scripts
from inference.protocol.minutes import STORED_S, read
from records.merging import be_alone
from slo.models import Rollup
from slo.sums import Sums, decode_sums, encode
from slo.windows import HOUR_S, MINUTE_S, STEPS_S

_LOCK = 0x51_0C_E1  # of PostgreSQL's advisory locks

logger = logging.getLogger(__name__)

Groups = dict[tuple[str, str], Sums]  # (model, organisation), of which each may be "": all


def roll_up(client: redis.Redis) -> int:
    """Store the minutes that have changed; return how many those were."""
    changed = sorted(int(minute) for minute in cast(list[bytes], client.hkeys(keys.MINUTES_CHANGED)))
    for hour, minutes in groupby(changed, key=lambda minute: minute * MINUTE_S // HOUR_S):
        _store(client, hour * HOUR_S, list(minutes))
    return len(changed)


def _store(client: redis.Redis, hour: int, minutes: Sequence[int]) -> None:
    """Store minutes of one hour, and what the steps are that they lie in."""
    # Before the transaction: SQLite lets nobody else write meanwhile. And the revisions first: what comes after them is
    # stored again.
    revisions = cast(list[bytes | None], client.hmget(keys.MINUTES_CHANGED, list(map(str, minutes))))
    counted = {minute * MINUTE_S: _groups_of(client, minute) for minute in minutes}
    with transaction.atomic():
        be_alone(_LOCK)
        for start, groups in counted.items():
            _write(MINUTE_S, start, _at_least(groups, _gathered(MINUTE_S, range(start, start + MINUTE_S))))
        for finer_s, step_s in pairwise(STEPS_S):
            for start in sorted({minute * MINUTE_S // step_s * step_s for minute in minutes}):
                _write(step_s, start, _gathered(finer_s, range(start, start + step_s)))
    for minute, revision in zip(minutes, revisions, strict=True):
        if revision is not None:  # else somebody else has just stored it
            client.eval(
                scripts.STORED, 2, keys.MINUTES_CHANGED, keys.minute(minute), minute, revision, STORED_S
            )  # fmt: skip


def _groups_of(client: redis.Redis, minute: int) -> Groups:
    groups: Groups = {}
    fields = cast(dict[bytes, bytes], client.hgetall(keys.minute(minute)))
    if not fields:
        logger.warning("what was counted in minute %d has expired in Redis before it could be stored", minute)
    for model, organization, sums in read(fields):
        try:
            counted = decode_sums(sums)
        except msgspec.DecodeError as error:  # no reason to leave all that came after it in Redis for good
            logger.error(
                "what was counted in minute %d of %r, %r cannot be read: %s", minute, model, organization, error
            )
            continue
        for group in {(model, organization), (model, ""), ("", organization), ("", "")}:
            groups.setdefault(group, Sums()).merge(counted)
    return groups


def _at_least(groups: Groups, stored: Groups) -> Groups:
    """Return, of each count, what is more: what was counted, or what is stored already."""
    for group, sums in stored.items():
        groups.setdefault(group, Sums()).raise_to(sums)
    return groups


def _gathered(step_s: int, starts: range) -> Groups:
    """Add up the rows of a step that begin in a range of time."""
    groups: Groups = {}
    rows = Rollup.objects.filter(step_s=step_s, start__gte=starts.start, start__lt=starts.stop)
    for model, organization, sums in rows.values_list("model", "organization", "sums").iterator():
        groups.setdefault((model, organization), Sums()).merge(decode_sums(sums))
    return groups


def _write(step_s: int, start: int, groups: Groups) -> None:
    """Replace the rows of a step; what was counted once does not go away, so none are left over."""
    rows: Iterable[Rollup] = (
        Rollup(step_s=step_s, start=start, model=model, organization=organization, sums=encode(sums))
        for (model, organization), sums in sorted(groups.items())
    )
    Rollup.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["step_s", "model", "organization", "start"],
        update_fields=["sums"],
    )
