"""Whether a worker of this host serves, for a probe at its start: a worker has no port that could be asked.

    python -m inference.ready

Not for a probe that goes on: while Redis is away it says no, and workers that wait for Redis must not be ended.
"""

from __future__ import annotations

import socket
import sys
from typing import cast

import redis

from inference.protocol import heartbeats, keys
from inference.protocol.settings import load

PATIENCE_S = 2.0


def serves(client: redis.Redis, host: str) -> bool:
    """Say whether a worker of a host was heard of lately, as it is once it has loaded its model."""
    seconds, micros = client.time()
    rows = cast(dict[bytes, bytes], client.hgetall(keys.WORKERS))
    workers = heartbeats.read(rows, seconds + micros / 1e6)
    return any(worker.fresh and worker.about.get("host") == host for worker in workers)


def main() -> str | None:
    """Return why none does, None where one does."""
    try:
        with redis.Redis.from_url(load().redis, socket_timeout=PATIENCE_S, socket_connect_timeout=PATIENCE_S) as client:
            return None if serves(client, socket.gethostname()) else "No worker of this host is ready."
    except redis.RedisError as error:
        return f"Redis does not answer: {error}"


if __name__ == "__main__":
    sys.exit(main())  # with a text, which goes to standard error, the status is 1
