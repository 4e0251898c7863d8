"""The worker's loop: claim, step, release, settle."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import redis

from inference.broker import FENCED, Broker, Call, checked, is_full
from inference.claims import Claim
from inference.detokenizer import Vocabulary
from inference.engines.base import Engine, EngineRequest, StepOutput
from inference.faults import fault_of
from inference.generation import Generation
from inference.intake import Intake, cancel_reason
from inference.protocol.requests import NewerVersion
from inference.protocol.settings import Settings
from inference.transcript import Batch

logger = logging.getLogger(__name__)

BEAT_S = 1.0
IDLE_WAIT_S = 0.5
FULL_PATIENCE_S = 10.0  # a full Redis has as long as one that is away: logs expire, and then there is room again
NEWER_PAUSE_S = 1.0  # after meeting a request for newer workers: let them have it

Ask = tuple[Call, Callable[[Any], None]]  # a call, and what to do with its reply


class Worker:
    """Serve one model with one engine, many messages at a time, from one thread."""

    def __init__(
        self,
        engine: Engine,
        broker: Broker,
        vocabulary: Vocabulary,
        settings: Settings,
        stopping: threading.Event | None = None,
    ) -> None:
        """Serve until `stopping` is set; the broker has the same event."""
        self.id = f"{socket.gethostname()}-{os.getpid()}"
        self._engine, self._broker, self._settings = engine, broker, settings
        self._intake = Intake(broker, vocabulary, settings, self.id)
        self._running: dict[str, Generation] = {}
        self._stopping = stopping or threading.Event()
        self._started_at = time.time()
        self._beat_due = self._renew_due = self._claim_due = 0.0

    def stop(self) -> None:
        """Ask the loop to end: running messages go back to the queue, for another worker to continue."""
        self._stopping.set()

    def run(self) -> None:
        """Serve until stopped."""
        try:
            while not self._stopping.is_set():
                self.turn()
                if not self._running:
                    self._broker.wait_for_work(IDLE_WAIT_S)
            self._hand_over()
        except redis.RedisError as error:
            if not self._stopping.is_set():
                raise
            logger.warning("stopped while redis is away (%s): leases will lapse", error)
        finally:
            self._leave()

    def turn(self) -> None:
        """Compute one step and exchange its results with Redis in one round trip."""
        for output in self._engine.step():
            self._accept(output)
        self._end_overdue()
        self._exchange(claiming=not self._stopping.is_set())
        self._beat()

    def _accept(self, output: StepOutput) -> None:
        generation = self._running[output.id]
        try:
            generation.accept(output)
        except Exception as error:  # whatever is wrong with one message is no reason to end the others
            self._fail(generation, fault_of(error))
        if generation.outcome is not None and output.finish is None:
            self._engine.cancel(output.id)  # a stop string ended it; the engine does not know

    def _end_overdue(self) -> None:
        for generation in self._running.values():
            if generation.outcome is None and generation.elapsed_s > self._settings.request_timeout_s:
                self._engine.cancel(generation.id)
                generation.fail("timeout", kind="timeout_error", message="The request took too long.")

    def _exchange(self, *, claiming: bool) -> None:
        """Append what was released, settle what ended, renew leases, claim what fits."""
        room = self._engine.max_batch - sum(g.outcome is None for g in self._running.values())
        claiming = claiming and room > 0 and time.monotonic() >= self._claim_due
        asks = [*self._appends(), *self._settlements(), *self._renewals(claiming)]
        if claiming:
            asks.append((self._broker.claim(room), self._begin_all))
        if asks:
            replies = self._broker.exchange([call for call, _ in asks])
            for (_, heed), reply in zip(asks, replies, strict=True):
                heed(reply)

    def _appends(self) -> Iterator[Ask]:
        for generation in self._running.values():
            if generation.is_due:
                batch = generation.take()
                call = self._broker.append(generation.id, generation.attempt, batch)
                yield call, partial(self._heed_append, generation, batch)

    def _settlements(self) -> Iterator[Ask]:
        for generation in self._running.values():
            if generation.outcome is not None:
                call = self._broker.settle(generation.settlement(generation.request, self.id))
                yield call, partial(self._heed_settlement, generation)

    def _renewals(self, claiming: bool) -> Iterator[Ask]:
        """Renew when it is time, and before each claim: after an outage it would return what we are running."""
        now = time.monotonic()
        held = [(g.id, g.attempt) for g in self._running.values() if g.outcome is None]
        if held and (claiming or now >= self._renew_due):
            self._renew_due = now + self._settings.lease_s / 3
            yield self._broker.renew(held), self._heed_renewal

    def _heed_append(self, generation: Generation, batch: Batch, reply: Any) -> None:
        """Act on what the log says of a message: another attempt has it, somebody cancelled it, it takes no more."""
        if isinstance(reply, redis.ResponseError):
            self._heed_refusal(generation, batch, reply)
        elif reply == FENCED:
            logger.warning("%s: attempt %d was fenced off", generation.id, generation.attempt)
            self._drop(generation.id)
        elif reply and generation.outcome is None:
            self._engine.cancel(generation.id)
            generation.cancel(cancel_reason(reply.decode()))

    def _heed_refusal(self, generation: Generation, batch: Batch, error: redis.ResponseError) -> None:
        if generation.outcome is not None:  # and it is settled: there is no more to be done
            logger.error("%s: its end cannot be written (%s)", generation.id, error)
            return
        refused_s = generation.put_back(batch)
        if not is_full(error) or refused_s > FULL_PATIENCE_S:
            self._fail(generation, f"its events cannot be written ({error})")

    def _heed_settlement(self, generation: Generation, reply: Any) -> None:
        if isinstance(reply, redis.ResponseError):
            logger.error("%s: cannot be settled (%s): who claims it next will", generation.id, reply)
        self._running.pop(generation.id, None)

    def _heed_renewal(self, reply: Any) -> None:
        for lost in checked(reply):
            self._drop(lost.decode())

    def _begin_all(self, reply: Any) -> None:
        for claim in self._broker.claims_of(reply):
            self._begin(claim)

    def _begin(self, claim: Claim) -> None:
        """Start on a claimed request, unless there is nothing left to do."""
        self._drop(claim.id)  # if it is ours the lease has lapsed: what we hold is no further than its log
        try:
            generation = self._intake.open(claim)
        except NewerVersion as newer:
            logger.warning("%s: left to a newer worker (%s)", claim.id, newer)
            self._claim_due = time.monotonic() + NEWER_PAUSE_S
            return
        if generation is None:
            return
        self._running[claim.id] = generation
        try:
            self._engine.submit(_engine_request(generation))
        except Exception as error:
            self._fail(generation, fault_of(error))

    def _fail(self, generation: Generation, fault: str) -> None:
        """End one message for a fault of its own."""
        logger.error("%s: failed: %s", generation.id, fault)
        self._engine.cancel(generation.id)
        if generation.outcome is None:
            generation.fail("error", kind="api_error", message="The worker failed on this request.")

    def _drop(self, message_id: str) -> None:
        """Forget a message that another attempt has taken over."""
        if self._running.pop(message_id, None):
            self._engine.cancel(message_id)

    def _hand_over(self) -> None:
        """Write what is computed, then give back what runs."""
        self._exchange(claiming=False)
        if self._running:
            logger.info("handing %d messages over", len(self._running))
            self._broker.exchange([self._broker.release(g.id, g.attempt) for g in self._running.values()])

    def _leave(self) -> None:
        try:
            self._broker.leave(self.id)
        except redis.RedisError as error:
            logger.warning("redis is away (%s): the heartbeat will age", error)

    def _beat(self) -> None:
        if time.monotonic() >= self._beat_due:
            self._beat_due = time.monotonic() + BEAT_S
            self._broker.beat(self.id, self.about())

    def about(self) -> dict[str, Any]:
        """Say what this worker is and how loaded: the content of its heartbeat."""
        return {
            "model": self._settings.model,
            "engine": self._settings.engine,
            "context_length": self._engine.context_length,
            "max_batch": self._engine.max_batch,
            "started_at": self._started_at,
            **asdict(self._engine.stats()),
        }


def _engine_request(generation: Generation) -> EngineRequest:
    request = generation.request
    return EngineRequest(
        id=request.id,
        prompt_ids=request.prompt_ids,
        max_tokens=request.max_tokens,
        sampling=request.sampling,
        generated_ids=generation.continued_from,
        salt=request.organization,
        text=request.texts[-1] if request.texts else "",
    )
