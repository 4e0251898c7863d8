"""Counting outside the gateways: adding to the counts in Redis that /metrics shows."""

from __future__ import annotations

import os
import socket

import redis

from inference.protocol.metrics import Tally


def tell(client: redis.Redis, who: str, tally: Tally) -> None:
    """Add what was counted, if anything; `who` tells this part of the process from others that count."""
    call = tally.call(f"{who}-{socket.gethostname()}-{os.getpid()}")
    if call is not None:
        script, names, arguments = call
        client.eval(script, len(names), *names, *arguments)
