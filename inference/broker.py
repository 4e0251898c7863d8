"""The worker's side of Redis: one round trip per turn, whatever it carries."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import redis
from redis.exceptions import ClusterDownError, NoScriptError, OutOfMemoryError, ReadOnlyError, TryAgainError

from inference.claims import Claim, Taken
from inference.protocol import drains, keys, policies, quotas, scripts
from inference.protocol.metrics import Tally
from inference.protocol.minutes import MinuteTally
from inference.protocol.outcomes import OUTCOMES
from inference.protocol.progress import Progress, encode_ids, progress_of
from inference.protocol.reports import LOGGED, Settlement, Trigger, common_in
from inference.room import Room
from inference.tail import Batch
from inference.transcript import Transcript

logger = logging.getLogger(__name__)

SCRIPTS = (
    scripts.TAKE, scripts.APPEND, scripts.RENEW, scripts.CLAIM, scripts.RELEASE, scripts.SETTLE, scripts.BEAT,
    scripts.ADD_COUNTS, scripts.ADD_MINUTES, scripts.REPORT,
    scripts.OPEN, scripts.RECLAIM, quotas.ACCOUNT, quotas.RENEW,
)  # fmt: skip

Call = tuple[str, Sequence[str], Sequence[Any]]  # script, keys, arguments
Asked = tuple[Call, Callable[[Any], None]]  # a call, and what to do with its reply

FENCED = -1  # reply of an append by an attempt that has lost the pen
NO_LOG = -2  # reply of an append where Redis lost the whole log
GONE = 0  # reply of a take when the log has expired
OVERTAKEN = 0  # reply of a settlement, a release or a reclaim where the claim is another by now, or forgotten
SETTLED = 1  # reply of a settlement that is the one

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
        self.worker = ""  # who holds what we claim, for operators to see
        self.outages = 0  # how often Redis has gone away, or come back as one that knows nothing of us
        self.away_s = 0.0  # for how long it did at last
        self._known = False  # whether it had our scripts
        self._model = model
        self._lease_ms = int(lease_s * 1000)
        self._log_ttl_s = log_ttl_s
        self._queue = (
            keys.ready(model), keys.payloads(model), keys.leases(model), keys.attempts(model),
        )  # fmt: skip

    # Each of these returns a call, to be sent together with others by `exchange`.

    def claim(self, room: Room) -> Call:
        """Claim requests for which there is room; `claims_of` reads the reply."""
        size = (room.requests, self._lease_ms, room.payload_bytes, int(room.any_size))
        return scripts.CLAIM, (*self._queue, keys.wake(self._model)), size

    def append(self, transcript: Transcript, batch: Batch) -> Call:
        """Append a batch, maybe empty. The reply is the cancel reason, `b""`, or `FENCED`.

        Where Redis has forgotten what came before, it is [id of its last event, the frame of that], or `NO_LOG`.
        """
        name = transcript.id
        entries: list[bytes | str] = []
        for frame, token_ids in zip(batch.frames, batch.token_ids, strict=True):
            entries += (frame, encode_ids(token_ids))
        head = (transcript.pen, keys.channel(name), batch.first_id, batch.deltas, batch.outcome or "", self._log_ttl_s)
        return scripts.APPEND, (keys.log(name), keys.meta(name), keys.owner(name)), (*head, *entries)

    def take_again(self, transcript: Transcript) -> Call:
        """Take the pen of a log that may have forgotten that it was taken; the append that follows tells of it."""
        return self._take(transcript.id, transcript.pen, transcript.waited_ms)

    def account(self, settlement: Settlement, pen: int) -> Call:
        """Count what a message used. It comes before `settle`: then it is done, whoever dies in between."""
        return quotas.accounting(settlement, pen=pen)

    def settle(self, settlement: Settlement, pen: int) -> Call:
        """Write the settlement and forget the request. The reply is `SETTLED`; `OVERTAKEN` where nothing was done."""
        return self._settle(settlement.id, pen, settlement.encode())

    def report(self, triggers: Sequence[Trigger]) -> Call:
        """Tell of what safety checks found."""
        return scripts.REPORT, (keys.triggers(self._model),), [trigger.encode() for trigger in triggers]

    def discard(self, claim: Claim) -> Call:
        """Forget a request of which no account can be given."""
        return self._settle(claim.id, claim.pen, "")

    def renew(self, held: Sequence[tuple[str, int]]) -> Call:
        """Renew the leases of (id, pen) pairs; the reply lists the ids of claims that are lost or forgotten."""
        pairs = [value for pair in held for value in pair]
        return scripts.RENEW, (keys.leases(self._model), keys.attempts(self._model)), (self._lease_ms, *pairs)

    def release(self, message_id: str, pen: int) -> Call:
        """Give a request back for another worker."""
        return scripts.RELEASE, (*self._queue, keys.wake(self._model)), (message_id, pen)

    def reclaim(self, transcript: Transcript, payload: str) -> Call:
        """Make a claim again that Redis may have forgotten. The reply is `OVERTAKEN` where a later one is there."""
        head = (transcript.id, transcript.attempt, transcript.pen, self._lease_ms)
        return scripts.RECLAIM, self._queue, (*head, int(transcript.elapsed_s * 1000), payload)

    def exchange(self, calls: Sequence[Call]) -> list[Any]:
        """Send calls in one round trip; return their replies, a `ResponseError` where Redis refused just that one.

        Waits, however long, while Redis is away. A reply that was lost is asked for again, since every script may run
        twice without harm. Only a claim has a price: what the lost reply named waits until its lease lapses, and that
        counts as a worker lost. Claims are not tried again once Redis has gone away: what it gives then, another worker
        may be running.
        """
        before = self.outages
        return cast(list[Any], self._retry(lambda: self._send(calls, claiming=self.outages == before)))

    def ask(self, call: Call) -> Any:
        """Send one call and return its reply; raise the `ResponseError` of one that was refused."""
        (reply,) = self.exchange([call])
        return checked(reply)

    def take(self, claim: Claim) -> Taken | None:
        """Take the pen of a claimed message's log, or return None when a later attempt has it."""
        reply = self.ask(self._take(claim.id, claim.pen, claim.age_ms))
        if reply is None:
            return None
        if reply == GONE:
            return _expired(claim)
        previous, cancel, outcome, waited = (value.decode() for value in reply)
        progress = Progress() if previous == "0" else self._progress(claim.id)
        progress.outcome = outcome if outcome in OUTCOMES else progress.outcome
        return Taken(cancel=cancel, progress=progress, waited_ms=float(waited))

    def common_of(self, message_id: str) -> dict[str, Any] | None:
        """Return what each report says of a message, by its log; None when that is gone."""
        found = self._retry(lambda: self._redis.hmget(keys.meta(message_id), LOGGED))
        return common_in(message_id, cast(list[bytes | None], found))

    def claims_of(self, reply: Any) -> list[Claim]:
        """Read the reply of `claim`."""
        rows = zip(*(iter(checked(reply)),) * 6, strict=True)
        return [
            Claim(id=message_id.decode(), attempt=attempt, pen=pen, lost=lost, age_ms=age, payload=payload)
            for message_id, attempt, pen, lost, age, payload in rows
        ]

    def were_read(self, message_ids: Sequence[str]) -> list[bool]:
        """Say of messages whether they ever had a reader."""

        def ask() -> list[Any]:
            pipe = self._redis.pipeline(transaction=False)
            for message_id in message_ids:
                pipe.hexists(keys.meta(message_id), "read_until")
            return pipe.execute()

        return [bool(found) for found in self._retry(ask)]

    def current_policies(self) -> list[str]:
        """Return the digests of the safety policies that new requests have."""
        found: list[bytes] = self._retry(lambda: self._redis.hvals(policies.CURRENT))
        return [digest.decode() for digest in found]

    def definition(self, digest: str) -> bytes | None:
        """Return the encoded policy of a digest."""
        return cast(bytes | None, self._retry(lambda: self._redis.hget(policies.DEFINITIONS, digest)))

    def phrases(self, digests: Sequence[str]) -> list[bytes | None]:
        """Return blocklists, encoded, by their digests."""
        return cast(list[bytes | None], self._retry(lambda: self._redis.hmget(policies.PHRASES, list(digests))))

    def span_key(self) -> bytes | None:
        """Return what digests of flagged spans are keyed with."""
        return cast(bytes | None, self._retry(lambda: self._redis.get(policies.SPAN_KEY)))

    def note_log(self, message_id: str) -> None:
        """List a log among those that there are."""
        self._retry(lambda: self._redis.zadd(keys.LOGS, {message_id: time.time() * 1000}))

    def wait_for_work(self, timeout_s: float) -> bool:
        """Sleep until a request comes, at most so long; say whether one did."""
        return self._retry(lambda: self._redis.blpop([keys.wake(self._model)], timeout=timeout_s)) is not None

    def beat(self, worker: str, about: dict[str, Any]) -> None:
        """Tell the platform that this worker lives, and what it serves."""
        self.ask((scripts.BEAT, (keys.WORKERS,), (worker, json.dumps(about))))
        try:
            self._retry(lambda: self._redis.sadd(keys.MODELS, self._model))
        except OutOfMemoryError:
            pass  # it is there since the first heartbeat

    def is_to_drain(self, worker: str, started_at: float) -> bool:
        """Say whether this worker is asked to drain."""
        return bool(self._retry(lambda: self._redis.get(keys.drain(worker))) == drains.note(started_at))

    def add_counts(self, worker: str, tally: Tally) -> None:
        """Add what a worker has counted to the platform's counts."""
        if call := tally.call(f"worker-{worker}"):
            self.ask(call)
            tally.added()

    def add_minutes(self, worker: str, tally: MinuteTally) -> None:
        """Add what a worker has counted by the minute."""
        while call := tally.call(f"worker-{worker}"):
            tally.added(self.ask(call))

    def leave(self, worker: str) -> None:
        """Take this worker off the list."""
        self._redis.hdel(keys.WORKERS, worker)

    def _take(self, message_id: str, pen: int, age_ms: float) -> Call:
        return scripts.TAKE, (keys.meta(message_id),), (pen, int(age_ms), self.worker)

    def _settle(self, message_id: str, pen: int, settlement: str) -> Call:
        names = (*self._queue, keys.settlements(self._model), keys.outcomes(self._model))
        return scripts.SETTLE, names, (message_id, pen, settlement)

    def _progress(self, message_id: str) -> Progress:
        return progress_of(self._retry(lambda: self._redis.xrange(keys.log(message_id))))

    def _send(self, calls: Sequence[Call], *, claiming: bool) -> list[Any]:
        replies = self._pipeline_of(calls, claiming=claiming)
        missing = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if missing:  # a Redis that has restarted forgot them
            self.outages += self._known
            for text in SCRIPTS:  # all, in this order: no worker may find a claim without the renewal before it
                self._redis.script_load(text)
            again = self._pipeline_of([calls[i] for i in missing], claiming=claiming and not self._known)
            for i, reply in zip(missing, again, strict=True):
                replies[i] = reply
        self._known = True
        for reply in replies:
            if _is_away(reply):
                raise reply
        return replies

    def _pipeline_of(self, calls: Sequence[Call], *, claiming: bool) -> list[Any]:
        """Send calls; claims only where that is wanted, else they find nothing."""
        if claiming:
            return self._pipeline(calls)
        others = iter(self._pipeline([call for call in calls if call[0] != scripts.CLAIM]))
        return [[] if call[0] == scripts.CLAIM else next(others) for call in calls]

    def _pipeline(self, calls: Sequence[Call]) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for text, names, arguments in calls:
            pipe.evalsha(scripts.sha_of(text), len(names), *names, *arguments)
        return pipe.execute(raise_on_error=False)

    def _retry(self, ask: Callable[[], Any]) -> Any:
        pause, began, failed = 0.05, time.monotonic(), False
        while True:
            try:
                reply = ask()
                if failed:
                    self.away_s = time.monotonic() - began
                return reply
            except redis.RedisError as error:
                failed = True
                self.outages += isinstance(error, redis.ConnectionError | redis.TimeoutError)
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


def _is_away(reply: object) -> bool:
    if isinstance(reply, redis.ResponseError) and any(word in str(reply) for word in _AWAY_WORDS):
        return True
    return isinstance(reply, _AWAY)


def _expired(claim: Claim) -> Taken:
    """Say how a message ended whose log is gone: it outlives every deadline, so its worker was lost, or never came."""
    return Taken(progress=Progress(outcome="worker_lost" if claim.lost else "timeout"), waited_ms=claim.age_ms)
