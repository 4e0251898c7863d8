"""The worker's side of Redis: one round trip per turn, whatever it carries."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import redis
from redis.exceptions import ClusterDownError, NoScriptError, OutOfMemoryError, ReadOnlyError, TryAgainError

from inference.claims import Claim, Taken
from inference.protocol import keys, scripts
from inference.protocol.outcomes import OUTCOMES
from inference.protocol.progress import Progress, encode_ids, progress_of
from inference.protocol.reports import Settlement
from inference.transcript import Batch

logger = logging.getLogger(__name__)

SCRIPTS = (
    scripts.TAKE, scripts.APPEND, scripts.RENEW, scripts.CLAIM, scripts.RELEASE, scripts.SETTLE, scripts.BEAT,
)  # fmt: skip

Call = tuple[str, Sequence[str], Sequence[Any]]  # script, keys, arguments

FENCED = -1  # reply of an append by an attempt that has lost the pen
GONE = 0  # reply of a take when the log has expired

# A server that takes no writes from anybody is as good as away, and one that is loading is a ConnectionError anyway.
_AWAY = (redis.ConnectionError, redis.TimeoutError, ReadOnlyError, ClusterDownError, TryAgainError, NoScriptError)
_AWAY_WORDS = ("READONLY", "MISCONF", "NOREPLICAS")  # in other errors: Redis 6 wraps those that a script met


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
        head = (attempt, keys.channel(message_id), batch.first_id, batch.deltas, batch.outcome or "", self._log_ttl_s)
        return scripts.APPEND, (keys.log(message_id), keys.meta(message_id)), (*head, *entries)

    def settle(self, settlement: Settlement) -> Call:
        """Write the settlement and forget the request."""
        return self._settle(settlement.id, settlement.attempts, settlement.encode())

    def discard(self, claim: Claim) -> Call:
        """Forget a request of which no account can be given."""
        return self._settle(claim.id, claim.attempt, "")

    def renew(self, held: Sequence[tuple[str, int]]) -> Call:
        """Renew the leases of (id, attempt) pairs; the reply lists the ids that were lost."""
        pairs = [value for pair in held for value in pair]
        return scripts.RENEW, (keys.leases(self._model), keys.attempts(self._model)), (self._lease_ms, *pairs)

    def release(self, message_id: str, attempt: int) -> Call:
        """Give a request back for another worker."""
        return scripts.RELEASE, (*self._queue, keys.wake(self._model)), (message_id, attempt)

    def exchange(self, calls: Sequence[Call]) -> list[Any]:
        """Send calls in one round trip; return their replies, a `ResponseError` where Redis refused just that one.

        Waits, however long, while Redis is away. A reply that was lost is asked for again, since every script may run
        twice without harm. Only a claim has a price: what the lost reply named waits until its lease lapses, and that
        counts as a worker lost.
        """
        return cast(list[Any], self._retry(lambda: self._send(calls)))

    def ask(self, call: Call) -> Any:
        """Send one call and return its reply; raise the `ResponseError` of one that was refused."""
        (reply,) = self.exchange([call])
        return checked(reply)

    def take(self, claim: Claim) -> Taken | None:
        """Take the pen of a claimed message's log, or return None when a later attempt has it."""
        reply = self.ask((scripts.TAKE, (keys.meta(claim.id),), (claim.attempt, int(claim.age_ms))))
        if reply is None:
            return None
        if reply == GONE:
            return _expired(claim)
        previous, cancel, outcome, waited = (value.decode() for value in reply)
        progress = Progress() if previous == "0" else self._progress(claim.id)
        progress.outcome = outcome if outcome in OUTCOMES else progress.outcome
        return Taken(cancel=cancel, progress=progress, waited_ms=float(waited))

    def claims_of(self, reply: Any) -> list[Claim]:
        """Read the reply of `claim`."""
        rows = zip(*(iter(checked(reply)),) * 5, strict=True)
        return [
            Claim(id=message_id.decode(), attempt=attempt, lost=lost, age_ms=age, payload=payload)
            for message_id, attempt, lost, age, payload in rows
        ]

    def wait_for_work(self, timeout_s: float) -> None:
        """Sleep until a request comes, at most so long."""
        self._retry(lambda: self._redis.blpop([keys.wake(self._model)], timeout=timeout_s))

    def beat(self, worker: str, about: dict[str, Any]) -> None:
        """Tell the platform that this worker lives, and what it serves."""
        self.ask((scripts.BEAT, (keys.WORKERS,), (worker, json.dumps(about))))
        try:
            self._retry(lambda: self._redis.sadd(keys.MODELS, self._model))
        except OutOfMemoryError:
            pass  # it is there since the first heartbeat

    def leave(self, worker: str) -> None:
        """Take this worker off the list."""
        self._redis.hdel(keys.WORKERS, worker)

    def _settle(self, message_id: str, attempt: int, settlement: str) -> Call:
        return scripts.SETTLE, (*self._queue, keys.settlements(self._model)), (message_id, attempt, settlement)

    def _progress(self, message_id: str) -> Progress:
        return progress_of(self._retry(lambda: self._redis.xrange(keys.log(message_id))))

    def _send(self, calls: Sequence[Call]) -> list[Any]:
        replies = self._pipeline(calls)
        missing = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if missing:  # a Redis that has restarted forgot them
            for text in SCRIPTS:  # all, in this order: no worker may find a claim without the renewal before it
                self._redis.script_load(text)
            again = self._pipeline([calls[i] for i in missing])
            for i, reply in zip(missing, again, strict=True):
                replies[i] = reply
        for reply in replies:
            if _is_away(reply):
                raise reply
        return replies

    def _pipeline(self, calls: Sequence[Call]) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for text, names, arguments in calls:
            pipe.evalsha(scripts.sha_of(text), len(names), *names, *arguments)
        return pipe.execute(raise_on_error=False)

    def _retry(self, ask: Callable[[], Any]) -> Any:
        pause = 0.05
        while True:
            try:
                return ask()
            except redis.RedisError as error:
                if not _is_away(error) or self._stopping.wait(pause):
                    raise
                logger.warning("redis is away (%s), trying again", error)
                self._redis.connection_pool.disconnect()  # its address may lead to another server by now
                pause = min(pause * 2, 1.0)


def checked(reply: Any) -> Any:
    """Return a reply, or raise the error that it is."""
    if isinstance(reply, redis.ResponseError):
        raise reply
    return reply


def is_full(error: redis.ResponseError) -> bool:
    """Say whether Redis refused something because it has no memory for it."""
    return isinstance(error, OutOfMemoryError) or "OOM" in str(error)  # Redis 6 wraps what a script met


def _is_away(reply: object) -> bool:
    if isinstance(reply, redis.ResponseError) and any(word in str(reply) for word in _AWAY_WORDS):
        return True
    return isinstance(reply, _AWAY)


def _expired(claim: Claim) -> Taken:
    """Say how a message ended whose log is gone: it outlives every deadline, so its worker was lost, or never came."""
    return Taken(progress=Progress(outcome="worker_lost" if claim.lost else "timeout"), waited_ms=claim.age_ms)
