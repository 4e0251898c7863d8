"""Counting outside the gateways: adding to the counts in Redis that /metrics shows, and to those by the minute."""

from __future__ import annotations

import os
import socket

import redis

from inference.protocol.metrics import Tally
from inference.protocol.minutes import MinuteTally


def tell(client: redis.Redis, who: str, tally: Tally) -> None:
    """Add what was counted, if anything; `who` tells this part of the process from others that count."""
    call = tally.call(_process(who))
    if call is not None:
        script, names, arguments = call
        client.eval(script, len(names), *names, *arguments)


def tell_minutes(client: redis.Redis, who: str, tally: MinuteTally) -> None:
    """Add what was counted by the minute; `who` is as for `tell`."""
    while call := tally.call(_process(who)):
        script, names, arguments = call
        tally.added(int(client.eval(script, len(names), *names, *arguments)))


def _process(who: str) -> str:
    return f"{who}-{socket.gethostname()}-{os.getpid()}"
