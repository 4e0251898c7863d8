"""Keeping what is held for running messages: the worker's claims on them, and their reservations in quotas."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from inference.broker import Asked, Broker, Call, checked
from inference.generation import Generation
from inference.protocol.quotas import lease_ms, long_lease_ms, renewing
from inference.protocol.settings import Settings
from inference.running import Running
from inference.settling import heed_account


class Leases:
    """Renews what one worker holds, while it runs."""

    def __init__(
        self, broker: Broker, running: Running, settings: Settings, *, lost: Callable[[Generation], None]
    ) -> None:
        """`lost` is called for each message whose claim is lost or forgotten."""
        self._broker, self._running, self._settings, self._lost = broker, running, settings, lost
        self._claims_due = self._reservations_due = 0.0

    def renewals(self, claiming: bool) -> Iterator[Asked]:
        """Renew when it is time, and before each claim: after an outage it would return what we are running."""
        now = time.monotonic()
        held = [(g.id, g.pen) for g in self._running.values() if g.outcome is None]
        if held and (claiming or now >= self._claims_due):
            self._claims_due = now + self._settings.lease_s / 3
            yield self._broker.renew(held), self._heed_renewal

    def reservations(self) -> Iterator[Asked]:
        """Keep what quotas hold for the messages that run."""
        now = time.monotonic()
        if self._running and now >= self._reservations_due:
            self._reservations_due = now + self._settings.lease_s
            for call in self._reserving(lease_ms(self._settings)):
                yield call, heed_account

    def give_back(self) -> None:
        """Give back all that runs; quotas keep holding for it, since it may wait for long."""
        releases = [self._broker.release(g.id, g.pen) for g in self._running.values()]
        self._broker.exchange([*self._reserving(long_lease_ms(self._settings)), *releases])

    def _reserving(self, lease_ms: int) -> Iterator[Call]:
        names: defaultdict[str, list[str]] = defaultdict(list)
        for generation in self._running.values():
            names[generation.request.organization].append(generation.id)
        for organization, message_ids in names.items():
            yield renewing(organization, message_ids, lease_ms)

    def _heed_renewal(self, reply: Any) -> None:
        for name in checked(reply):
            generation = self._running.get(name.decode())
            if generation is not None:
                self._lost(generation)
