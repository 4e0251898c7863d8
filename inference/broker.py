"""The worker's side of Redis: one round trip per turn, whatever it carries."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import redis
from redis.exceptions import NoScriptError

from inference.generation import Batch, Claim
from inference.protocol import keys, scripts
from inference.protocol.progress import Progress, encode_ids, progress_of
from inference.protocol.reports import Settlement
from inference.protocol.requests import GenerationRequest

logger = logging.getLogger(__name__)

_SHA = {text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for text in (
    scripts.TAKE, scripts.APPEND, scripts.CLAIM, scripts.RENEW, scripts.RELEASE, scripts.SETTLE,
)}  # fmt: skip

Call = tuple[str, Sequence[str], Sequence[Any]]  # script, keys, arguments

FENCED = -1  # reply of an append by an attempt that has lost the pen
GONE = 0  # reply of a take when the log has expired


@dataclass(frozen=True, slots=True)
class Taken:
    """What a worker finds when it takes a message's pen: a cancel reason or "", and how far the message is."""

    cancel: str
    progress: Progress


class Broker:
    """Claims, appends, renewals and settlements of one worker on one model."""

    def __init__(
        self,
        client: redis.Redis,
        *,
        model: str,
        lease_s: float,
        log_ttl_s: int,
        stopping: threading.Event | None = None,
    ) -> None:
        """Wait for a Redis that is away, until `stopping` is set: then its error is raised."""
        self._redis = client
        self._stopping = stopping or threading.Event()
        self._model = model
        self._lease_ms = int(lease_s * 1000)
        self._log_ttl_s = log_ttl_s
        self._queue = (
            keys.ready(model), keys.payloads(model), keys.leases(model), keys.attempts(model),
        )  # fmt: skip

    # Each of these returns a call, to be sent together with others by `exchange`.

    def claim(self, count: int) -> Call:
        """Claim up to `count` requests; `claims_of` reads the reply."""
        return scripts.CLAIM, (*self._queue, keys.wake(self._model)), (count, self._lease_ms)

    def append(self, message_id: str, attempt: int, batch: Batch) -> Call:
        """Append a batch, maybe empty. The reply is the cancel reason, `b""`, or `FENCED`."""
        entries: list[bytes | str] = []
        for frame, token_ids in zip(batch.frames, batch.token_ids, strict=True):
            entries += (frame, encode_ids(token_ids))
        head = (attempt, keys.channel(message_id), batch.first_id, batch.deltas, int(batch.ended), self._log_ttl_s)
        return scripts.APPEND, (keys.log(message_id), keys.meta(message_id)), (*head, *entries)

    def settle(self, settlement: Settlement) -> Call:
        """Write the settlement and forget the request."""
        arguments = (settlement.id, settlement.attempts, settlement.encode())
        return scripts.SETTLE, (*self._queue, keys.settlements(self._model)), arguments

    def renew(self, held: Sequence[tuple[str, int]]) -> Call:
        """Renew the leases of (id, attempt) pairs; the reply lists the ids that were lost."""
        pairs = [value for pair in held for value in pair]
        return scripts.RENEW, (keys.leases(self._model), keys.attempts(self._model)), (self._lease_ms, *pairs)

    def release(self, message_id: str, attempt: int) -> Call:
        """Give a request back for another worker."""
        return scripts.RELEASE, (*self._queue, keys.wake(self._model)), (message_id, attempt)

    def exchange(self, calls: Sequence[Call]) -> list[Any]:
        """Send calls in one round trip and return their replies. Waits, however long, while Redis is away.

        Every script may run twice without harm, so a reply that was lost is asked for again.
        """
        return cast(list[Any], self._retry(lambda: self._send(calls)))

    def take(self, claim: Claim) -> Taken | None:
        """Take the pen of a claimed message's log, or return None when a later attempt has it."""
        message_id = claim.request.id
        (reply,) = self.exchange([(scripts.TAKE, (keys.meta(message_id),), (claim.attempt,))])
        if reply is None:
            return None
        if reply == GONE:
            return Taken(cancel="", progress=Progress(outcome="timeout"))
        fresh = claim.attempt == 1
        entries = [] if fresh else self._retry(lambda: self._redis.xrange(keys.log(message_id)))
        return Taken(cancel=reply.decode(), progress=Progress() if fresh else progress_of(entries))

    def claims_of(self, reply: list[Any]) -> list[Claim]:
        """Read the reply of `claim`."""
        rows = zip(*(iter(reply),) * 4, strict=True)
        return [
            Claim(request=GenerationRequest.decode(payload), attempt=attempt, waited_ms=waited)
            for _, attempt, waited, payload in rows
        ]

    def wait_for_work(self, timeout_s: float) -> None:
        """Sleep until a request comes, at most so long."""
        self._retry(lambda: self._redis.blpop([keys.wake(self._model)], timeout=timeout_s))

    def beat(self, worker: str, about: dict[str, Any]) -> None:
        """Tell the platform that this worker lives, and what it serves."""
        pipe = self._redis.pipeline(transaction=False)
        pipe.hset(keys.WORKERS, worker, json.dumps(about | {"seen_at": time.time()}))
        pipe.sadd(keys.MODELS, self._model)
        self._retry(pipe.execute)

    def leave(self, worker: str) -> None:
        """Take this worker off the list."""
        self._redis.hdel(keys.WORKERS, worker)

    def _send(self, calls: Sequence[Call]) -> list[Any]:
        replies = self._pipeline(calls)
        missing = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if missing:  # a Redis that has restarted forgot them
            for text in {calls[i][0] for i in missing}:
                self._redis.script_load(text)
            again = self._pipeline([calls[i] for i in missing])
            for i, reply in zip(missing, again, strict=True):
                replies[i] = reply
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _pipeline(self, calls: Sequence[Call]) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for text, names, arguments in calls:
            pipe.evalsha(_SHA[text], len(names), *names, *arguments)
        return pipe.execute(raise_on_error=False)

    def _retry(self, ask: Callable[[], Any]) -> Any:
        pause = 0.05
        while True:
            try:
                return ask()
            except (redis.ConnectionError, redis.TimeoutError) as error:  # a loading server is a ConnectionError, too
                if self._stopping.wait(pause):
                    raise
                logger.warning("redis is away (%s), trying again", error)
                pause = min(pause * 2, 1.0)
