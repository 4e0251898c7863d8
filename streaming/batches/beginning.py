"""How requests of batches begin: each once, whoever has begun what before."""

from __future__ import annotations

import logging
from collections.abc import Collection

from django.db import Error as DatabaseError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from common.errors import ApiError, AuthenticationFailed, PermissionDenied
from streaming.batches.counting import Counting
from streaming.batches.database import Callers, Database, items_after, recorded
from streaming.batches.ends import Ends
from streaming.batches.results import LOST, errored, stopped
from streaming.batches.room import Room
from streaming.batches.states import states_of
from streaming.batches.submission import Hold, Submission
from streaming.batches.telling import Telling
from streaming.batches.turns import Turns
from streaming.batches.work import BatchRun, Item, Running

logger = logging.getLogger(__name__)

ITEMS = 16  # of a batch, that are taken from the database at once
AT_ONCE = 256  # requests that are begun, or refused, before ended ones are looked for
NO_ROOM_S = 0.1  # that a batch waits where there is no room at its model

FAILED = ApiError("The server failed on this request. It has been logged.")


class Beginning:
    """Begins requests while there is room."""

    def __init__(
        self,
        client: Redis,
        database: Database,
        submission: Submission,
        room: Room,
        running: dict[str, Running],
        ends: Ends,
        telling: Telling,
        counting: Counting,
    ) -> None:
        self._redis, self._database, self._submission, self._room = client, database, submission, room
        self._running, self._ends, self._telling, self._counting = running, ends, telling, counting
        self._callers = Callers(database)
        self._turns = Turns()

    async def fill(self, batches: Collection[BatchRun]) -> bool:
        """Begin requests while there is room; say whether there may be more to begin at once."""
        for _ in range(AT_ONCE if self._room.for_logs else 0):
            batch = self._turns.next(batches) if self._room.for_more else None
            if batch is None:
                return False
            await self._begin(batch)
        return self._room.for_logs

    async def _begin(self, batch: BatchRun) -> None:
        """Begin the next request of a batch."""
        item = await self._take(batch)
        if item is None:
            return
        try:
            caller = await self._callers.find(batch.key)
        except (AuthenticationFailed, PermissionDenied) as error:
            batch.end_with(errored(error))
            return
        try:
            request, rest_s = await self._submission.submit(item, caller)
        except Hold as hold:
            batch.items.appendleft(item)
            self._turns.hold(batch, hold.seconds or NO_ROOM_S, whole_key=hold.whole_key)
        except ApiError as error:
            self._refuse(batch, item, error)
        except (RedisError, DatabaseError, OSError):
            raise  # not of its making
        except Exception:
            logger.exception("%s: cannot be run", item.id)
            self._refuse(batch, item, FAILED)
        else:
            facts = self._telling.begun(request, item.stages)
            self._running[item.id] = Running(item.id, item.number, batch, request.model, item.stages, facts)
            self._turns.hold(batch, rest_s, whole_key=True)

    def _refuse(self, batch: BatchRun, item: Item, error: ApiError) -> None:
        self._telling.refused(item.id, batch.id, item.stages, error)
        self._counting.refused(batch.organization, item.prepared.model if item.prepared else "", error)
        self._ends.add(batch, stopped(item.id, errored(error)))

    async def _take(self, batch: BatchRun) -> Item | None:
        """Return the next request that has not begun."""
        if not batch.items:
            found = await self._database.ask(items_after, batch.id, batch.cursor, ITEMS)
            batch.exhausted = len(found) < ITEMS
            if found:
                batch.cursor = found[-1].number
                batch.items.extend(await self._not_begun(batch, found))
        if not batch.items:
            return None
        batch.exhausted = False
        return batch.items.popleft()

    async def _not_begun(self, batch: BatchRun, items: list[Item]) -> list[Item]:
        """Leave out what has begun: before this runner came, say."""
        items = [item for item in items if item.id not in self._running]
        states = await states_of(self._redis, [item.id for item in items])
        unknown = [item.id for item, state in zip(items, states, strict=True) if not state.had_log]
        done = await self._database.ask(recorded, unknown) if unknown else set()
        left = []
        for item, state in zip(items, states, strict=True):
            if state.model is not None:
                self._running[item.id] = Running(item.id, item.number, batch, state.model)
            elif state.had_log or item.id in done:
                self._ends.add(batch, stopped(item.id, errored(LOST)))
            else:
                left.append(item)
        return left
