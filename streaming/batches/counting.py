"""What a runner counts: requests that it refuses, since no gateway saw them, and messages that it settles."""

from __future__ import annotations

from common.errors import ApiError
from inference.protocol.metrics import Tally
from inference.protocol.minutes import ANSWERS, MinuteTally
from inference.protocol.reports import Settlement
from streaming.eventlog import EventLog
from streaming.verdicts import verdict_of_error


class Counting:
    """The counts of one runner."""

    def __init__(self, log: EventLog, *, runner: str) -> None:
        self._log, self._runner = log, runner
        self._tally, self._minutes = Tally(), MinuteTally()

    def refused(self, organization: str, model: str, error: ApiError) -> None:
        """Judge a request that was not queued; its model is "" where that is not known."""
        verdict = verdict_of_error(error)
        self._tally.answered(verdict)
        self._minutes.of(model, organization).add(ANSWERS, verdict)

    def settled(self, settlement: Settlement) -> None:
        """Note a message that has ended here, since no worker would end it."""
        self._tally.settled(settlement)
        self._minutes.of(settlement.model, settlement.organization).settled(settlement)

    async def flush(self) -> None:
        """Add what was counted."""
        if call := self._tally.call(self._runner):
            await self._log.run(*call)
            self._tally.added()
        while minutes := self._minutes.call(self._runner):
            self._minutes.added(await self._log.run(*minutes))
