"""Reading one message's events in order: live and replay are the same reader with a cursor."""

from __future__ import annotations

from streaming.announcements import Subscription
from streaming.eventlog import Chunk, EventLog

SLICE = 200  # events fetched from the log at once


class LogReader:
    """Give the events after a cursor, none twice and none left out.

    An announcement is passed on only if it begins right after the cursor. Otherwise the log is read, until it has
    no more to give; so it is at first, for what came before announcements were heard.
    """

    def __init__(self, log: EventLog, subscription: Subscription, message_id: str, *, cursor: int) -> None:
        """Read `message_id` from after `cursor`."""
        self.cursor = cursor
        self.ended = False
        self._log, self._subscription, self._message_id = log, subscription, message_id
        self._hears = False
        self._behind = True

    async def next(self, timeout: float) -> Chunk | None:
        """Return the next events, or None when there were none for `timeout` s; raise `StreamLost` without a log."""
        if not self._hears:
            await self._subscription.confirmed()
            self._hears = True
        while True:
            if self._behind or self._subscription.missed:
                chunk = await self._fetch()
                if chunk is not None:
                    return self._advance(chunk)
            heard = await self._subscription.get(timeout)
            if heard is None and not self._subscription.missed:
                # Nothing was announced, or it was lost on the way: the log knows.
                chunk = await self._fetch()
                if chunk is None:
                    await self._log.check_is_there(self._message_id, after=self.cursor)
                    return None
                return self._advance(chunk)
            if heard is not None and heard.chunk.last_id > self.cursor:
                if heard.first_id == self.cursor + 1:
                    return self._advance(heard.chunk)
                self._behind = True

    async def _fetch(self) -> Chunk | None:
        self._subscription.missed = False
        chunk = await self._log.read(self._message_id, after=self.cursor, count=SLICE)
        self._behind = chunk is not None  # there may be more
        return chunk

    def _advance(self, chunk: Chunk) -> Chunk:
        self.cursor, self.ended = chunk.last_id, chunk.ended
        return chunk
