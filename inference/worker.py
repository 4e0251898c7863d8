"""The worker's loop: claim, step, release, settle."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from dataclasses import asdict
from typing import Any

import redis

from inference.broker import FENCED, Broker, Call
from inference.detokenizer import Vocabulary
from inference.engines.base import Engine, EngineRequest
from inference.generation import Claim, Generation
from inference.protocol.outcomes import CANCEL_REASONS, CancelReason
from inference.protocol.settings import Settings

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
BEAT_S = 1.0
IDLE_WAIT_S = 0.5


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
        self._engine, self._broker, self._vocabulary, self._settings = engine, broker, vocabulary, settings
        self._running: dict[str, Generation] = {}
        self._stopping = stopping or threading.Event()
        self._started_at = time.time()
        self._beat_due = self._renew_due = 0.0

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

    def turn(self) -> None:
        """Compute one step and exchange its results with Redis in one round trip."""
        for output in self._engine.step():
            generation = self._running[output.id]
            generation.accept(output)
            if generation.outcome is not None and output.finish is None:
                self._engine.cancel(output.id)  # a stop string ended it; the engine does not know
        self._end_overdue()
        self._exchange()
        self._beat()

    def _exchange(self) -> None:
        """Append what was released, settle what ended, renew leases, claim what fits."""
        generations = [g for g in self._running.values() if g.has_news()]
        calls: list[Call] = [self._broker.append(g.request.id, g.attempt, g.take()) for g in generations]
        ended = [g for g in generations if g.outcome is not None]
        calls += [self._broker.settle(g.settlement(self.id)) for g in ended]
        renewing = self._renewal()
        calls += renewing
        room = self._engine.max_batch - len(self._running) + len(ended)
        claiming = [self._broker.claim(room)] if room > 0 and not self._stopping.is_set() else []
        replies = self._broker.exchange(calls + claiming) if calls or claiming else []
        for generation in ended:
            del self._running[generation.request.id]
        for generation, reply in zip(generations, replies, strict=False):
            if generation.outcome is None:
                self._heed(generation, reply)
        if renewing:
            for lost in replies[len(generations) + len(ended)]:
                self._drop(lost.decode())
        if claiming:
            for claim in self._broker.claims_of(replies[-1]):
                self._begin(claim)

    def _heed(self, generation: Generation, reply: bytes | int) -> None:
        """Act on what the log says of a running message: another attempt has it, or somebody cancelled it."""
        if reply == FENCED:
            logger.warning("%s: attempt %d was fenced off", generation.request.id, generation.attempt)
            self._drop(generation.request.id)
        elif reply:
            assert isinstance(reply, bytes)
            self._engine.cancel(generation.request.id)
            generation.cancel(_cancel_reason(reply.decode()))

    def _begin(self, claim: Claim) -> None:
        """Start on a claimed request, or end it at once where there is nothing left to do."""
        taken = self._broker.take(claim)
        if taken is None:
            logger.warning("%s: a later attempt has it", claim.request.id)
            return
        generation = Generation(claim, self._vocabulary, taken.progress)
        if generation.outcome is not None:  # its worker died between the last event and the settlement
            self._broker.exchange([self._broker.settle(generation.settlement(self.id))])
            return
        self._running[claim.request.id] = generation
        if taken.cancel:
            generation.cancel(_cancel_reason(taken.cancel))
        elif generation.elapsed_s > self._settings.queue_timeout_s and claim.attempt == 1:
            generation.fail("timeout", kind="timeout_error", message="The request waited too long for a worker.")
        elif claim.attempt > MAX_ATTEMPTS:
            message = f"{MAX_ATTEMPTS} workers were lost on this request."
            generation.fail("worker_lost", kind="api_error", message=message)
        else:
            self._submit(claim.request.id, generation, taken.progress.token_ids)

    def _submit(self, message_id: str, generation: Generation, released: tuple[int, ...]) -> None:
        request = generation.request
        self._engine.submit(
            EngineRequest(
                id=message_id,
                prompt_ids=request.prompt_ids,
                max_tokens=request.max_tokens,
                sampling=request.sampling,
                generated_ids=released,
                salt=request.organization,
                text=request.texts[-1] if request.texts else "",
            )
        )

    def _renewal(self) -> list[Call]:
        now = time.monotonic()
        held = [(g.request.id, g.attempt) for g in self._running.values() if g.outcome is None]
        if now < self._renew_due or not held:
            return []
        self._renew_due = now + self._settings.lease_s / 3
        return [self._broker.renew(held)]

    def _end_overdue(self) -> None:
        for generation in self._running.values():
            if generation.outcome is None and generation.elapsed_s > self._settings.request_timeout_s:
                self._engine.cancel(generation.request.id)
                generation.fail("timeout", kind="timeout_error", message="The request took too long.")

    def _drop(self, message_id: str) -> None:
        """Forget a message that another worker has taken over."""
        self._engine.cancel(message_id)
        self._running.pop(message_id, None)

    def _hand_over(self) -> None:
        calls = [self._broker.release(g.request.id, g.attempt) for g in self._running.values() if g.outcome is None]
        if calls:
            logger.info("handing %d messages over", len(calls))
            self._broker.exchange(calls)
        self._broker.leave(self.id)

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


def _cancel_reason(word: str) -> CancelReason:
    return word if word in CANCEL_REASONS else "cancelled"
