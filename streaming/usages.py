"""What messages have used so far, asked for in bulk: when a gateway stops, all its streams want to know at once."""

from __future__ import annotations

import asyncio

from streaming.eventlog import AT_ONCE, EventLog, Usage

_Asked = tuple[str, int, asyncio.Future[Usage]]  # message, up to which event, the answer


class Usages:
    """Gathers what is asked in the same moment, and asks it in few round trips."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._waiting: list[_Asked] = []
        self._asking: asyncio.Task[None] | None = None

    async def until(self, message_id: str, event_id: int) -> Usage:
        """Return what a message had used at an event."""
        answer: asyncio.Future[Usage] = asyncio.get_running_loop().create_future()
        self._waiting.append((message_id, event_id, answer))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await answer

    async def _ask(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            try:
                found = await self._log.usages([(message_id, event_id) for message_id, event_id, _ in asked])
            except Exception as error:
                for *_, answer in asked:
                    if not answer.done():  # who asked may be gone
                        answer.set_exception(error)
            else:
                for (*_, answer), usage in zip(asked, found, strict=True):
                    if not answer.done():
                        answer.set_result(usage)
