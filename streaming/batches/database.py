"""What a runner asks of the database, in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ParamSpec, TypeVar

from channels.db import database_sync_to_async

from accounts.callers import Caller, Quota
from accounts.finding import find_caller_by_id
from batches.models import Batch, BatchRequest
from common.errors import AuthenticationFailed
from records.models import RequestRecord
from streaming.batches.work import BatchRun, Item

FRESH_S = 0.5  # with the time between two looks, a revoked key works for a second at most

P = ParamSpec("P")
T = TypeVar("T")


class Database:
    """A thread, in which queries run one after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "batches")

    def ask(self, query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Run a function that uses the database."""
        run: Callable[P, Awaitable[T]] = database_sync_to_async(query, thread_sensitive=False, executor=self._thread)
        return run(*args, **kwargs)

    def close(self) -> None:
        self._thread.shutdown()


class Callers:
    """The callers that batches belong to, as they are allowed to use what there is for batches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[float, Caller]] = {}

    async def find(self, key: str) -> Caller:
        """Return a caller; raise as for a posted message when its key is over, or may not do this."""
        found_at, caller = self._known.get(key, (float("-inf"), None))
        if caller is None or time.monotonic() - found_at > FRESH_S:
            caller = await self._database.ask(find_caller_by_id, key)
            if caller is None:
                raise AuthenticationFailed("The API key of this batch is gone.")
            caller = modest(caller)
            self._known[key] = (time.monotonic(), caller)
        caller.check(needs="inference")
        return caller


def modest(caller: Caller) -> Caller:
    """Return a caller whose requests give way to others: in the queue, and in half of the places for streams."""
    return replace(
        caller,
        priority="batch",
        key_quota=_with_half(caller.key_quota),
        organization_quota=_with_half(caller.organization_quota),
    )


def open_batches() -> list[BatchRun]:
    """Return the batches that have not ended, the oldest first."""
    found = Batch.objects.filter(ended_at=None).order_by("created_at", "pk")
    fields = ("pk", "organization_id", "key_id", "expires_at", "cancel_initiated_at")
    return [
        BatchRun(id=pk, organization=organization, key=key, expires_at=expires_at, canceled=canceled_at is not None)
        for pk, organization, key, expires_at, canceled_at in found.values_list(*fields)
    ]


def items_after(batch_id: str, number: int, count: int) -> list[Item]:
    """Return the next requests of a batch that have not ended."""
    found = BatchRequest.objects.filter(batch_id=batch_id, number__gt=number).order_by("number")[:count]
    return [Item(pk, number, bytes(params)) for pk, number, params in found.values_list("pk", "number", "params")]


def ids_after(batch_id: str, number: int, count: int) -> list[tuple[str, int]]:
    """Return the ids and numbers of the next requests of a batch that have not ended."""
    found = BatchRequest.objects.filter(batch_id=batch_id, number__gt=number).order_by("number")[:count]
    return list(found.values_list("pk", "number"))


def recorded(message_ids: Collection[str]) -> set[str]:
    """Return those messages that have ended as far as the records know."""
    found = RequestRecord.objects.filter(pk__in=message_ids).exclude(outcome="").order_by()
    return set(found.values_list("pk", flat=True))


def _with_half(quota: Quota) -> Quota:
    streams = quota.max_streams
    return quota if streams is None else replace(quota, max_streams=max(1, streams // 2))
