"""The worker's loop: claim, step, release, settle."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from inference import traces
from inference.broker import Broker
from inference.claims import Claim
from inference.detokenizer import Vocabulary
from inference.draining import Drain
from inference.engines.base import Engine, StepOutput
from inference.generation import Generation
from inference.heartbeat import Heartbeat
from inference.intake import Intake
from inference.leases import Leases
from inference.meter import Meter
from inference.protocol.heartbeats import process_id
from inference.protocol.reports import Settlement
from inference.protocol.requests import GenerationRequest, NewerVersion
from inference.protocol.settings import Settings
from inference.recovery import Recovery
from inference.room import Sizes
from inference.running import Running
from inference.safety.book import NotReady, PolicyBook
from inference.safety.classifiers import open_classifier
from inference.settling import Settler
from inference.watchdog import LEASES, Watchdog
from inference.writing import Writer

if TYPE_CHECKING:
    from inference.protocol.spans import Spans

logger = logging.getLogger(__name__)

BEAT_S = 1.0
IDLE_WAIT_S = 0.5
FORMING_S = 0.002  # after the first of a burst: those that come with it are computed with it
RECOVERY_S = 1.0  # after an outage nobody claims for so long: those who run a message make sure of it first
NEWER_PAUSE_S = 1.0  # after meeting a request for newer workers: let them have it
NOT_READY_PAUSE_S = 0.5  # while the checks of a request are loaded


class Worker:
    """Serve one model with one engine, many messages at a time, from one thread."""

    def __init__(
        self,
        engine: Engine,
        broker: Broker,
        vocabulary: Vocabulary,
        settings: Settings,
        stopping: threading.Event | None = None,
        spans: Spans | None = None,
    ) -> None:
        """Serve until `stopping` is set; the broker has the same event."""
        broker.worker = process_id()
        self._engine, self._broker, self._settings, self._spans = engine, broker, settings, spans
        self._stopping = stopping or threading.Event()
        self._started_at = time.time()
        open_on_device = partial(open_classifier, device=settings.device)
        self._book = PolicyBook(
            broker, open_on_device, "refusal" if settings.safety_stop_reason == "refusal" else "safety"
        )
        self._meter = Meter()
        self._intake = Intake(broker, vocabulary, self._book, settings, broker.worker, note=self._meter.settled)
        self._running = Running(engine)
        self._recovery = Recovery(broker, settings)
        self._writer = Writer(broker, self._running, self._recovery)
        self._settler = Settler(broker, self._running, self._recovery, note=self._note)
        self._leases = Leases(broker, self._running, settings, lost=self._writer.hold)
        self._drain = Drain(broker, started_at=self._started_at, within_s=settings.drain_s)
        self._heartbeat = Heartbeat(broker, engine, self._running, self._meter, self._drain, settings)
        self._sizes = Sizes()
        self._watchdog = Watchdog(settings.lease_s * LEASES)
        self._beat_due = self._claim_due = 0.0

    @property
    def id(self) -> str:
        """What this worker is called in its heartbeat and in what it settles."""
        return self._broker.worker

    def stop(self) -> None:
        """Ask the loop to end: running messages go back to the queue, for another worker to continue."""
        self._stopping.set()

    @property
    def draining(self) -> bool:
        """Whether an operator asked this worker to claim no more, and to end once what it runs has ended."""
        return self._drain.asked

    def about(self) -> dict[str, Any]:
        """Say what this worker is and how loaded: the content of its heartbeat."""
        return self._heartbeat.about()

    def run(self) -> None:
        """Serve until stopped or drained."""
        try:
            while not (self._stopping.is_set() or self._drain.is_over(len(self._running))):
                self.turn()
                if not self._running and not self.draining and self._broker.wait_for_work(IDLE_WAIT_S):
                    self._stopping.wait(FORMING_S)
            self._hand_over()
        except redis.RedisError as error:
            if not self._stopping.is_set():
                raise
            logger.warning("stopped while redis is away (%s): leases will lapse", error)
        finally:
            self._heartbeat.leave()

    def turn(self) -> None:
        """Compute one step and exchange its results with Redis in one round trip."""
        with self._watchdog:
            outputs = self._engine.step()
        self._take(outputs)
        self._end_overdue()
        self._exchange(claiming=not (self._stopping.is_set() or self.draining))
        self._beat()

    def _take(self, outputs: Sequence[StepOutput]) -> None:
        for output in outputs:
            self._meter.heard(output)
        self._running.take(outputs)

    def _end_overdue(self) -> None:
        for generation in self._running.values():
            longest_s = self._settings.request_timeout_s + (generation.request.patience_s or 0)
            if generation.outcome is None and generation.elapsed_s > longest_s:
                self._running.end(generation, "timeout", kind="timeout_error", message="The request took too long.")

    def _exchange(self, *, claiming: bool) -> None:
        """Append what was released, settle what ended, renew leases, claim what fits."""
        if self._recovery.is_due:
            self._look_back()
        else:
            self._recovery.forget_old()
        num_held = sum(g.outcome is None for g in self._running.values())
        room = self._sizes.room(self._engine.max_batch - num_held, self._engine.stats())
        claiming = claiming and room.requests > 0 and time.monotonic() >= self._claim_due
        asks = [
            *self._settler.reports(),  # before what they are about can leave: it is not told again once it has
            *self._writer.appends(),
            *self._settler.settlements(),
            *self._leases.renewals(claiming),
            *self._leases.reservations(),
        ]
        if claiming:
            asks.append((self._broker.claim(room), self._begin_all))
        if asks:
            replies = self._broker.exchange([call for call, _ in asks])
            for (_, heed), reply in zip(asks, replies, strict=True):
                heed(reply)

    def _beat(self) -> None:
        if time.monotonic() >= self._beat_due:
            self._beat_due = time.monotonic() + BEAT_S
            self._heartbeat.beat()
            self._book.prepare()
            self._heartbeat.add_counts()
            if self._drain.look(len(self._running)):
                self._heartbeat.beat()  # the page that it was asked from need not wait for the next one

    def _begin_all(self, reply: Any) -> None:
        """Start on what was claimed."""
        claims = self._broker.claims_of(reply)
        self._running.begin([generation for claim in claims if (generation := self._begin(claim))])

    def _begin(self, claim: Claim) -> Generation | None:
        """Open a claimed request; return None where there is nothing left to do."""
        if claim.id in self._running:  # the lease has lapsed: what we hold is no further than its log
            self._running.drop(self._running[claim.id])
        try:
            generation = self._intake.open(claim)
        except NewerVersion as newer:
            logger.warning("%s: left to a newer worker (%s)", claim.id, newer)
            self._claim_due = time.monotonic() + NEWER_PAUSE_S
            return None
        except NotReady as later:
            logger.info("%s: given back (%s)", claim.id, later)
            self._claim_due = time.monotonic() + NOT_READY_PAUSE_S
            return None
        if generation is not None:
            self._running[claim.id] = generation
            self._sizes.note(len(claim.payload), len(generation.request.prompt_ids))
        return generation

    def _note(self, request: GenerationRequest, settlement: Settlement) -> None:
        """Note a message that has ended here."""
        self._meter.settled(settlement)
        if self._spans is not None:
            traces.tell(self._spans, request, settlement)

    def _look_back(self) -> None:
        """After an outage, end again what ended shortly before, and let those who run a message be heard first."""
        for generation in self._recovery.given_up(self._running.values()):
            message = "The event log was away for too long."
            self._running.end(generation, "error", kind="api_error", message=message)
        for generation in self._recovery.recall():
            self._running.setdefault(generation.id, generation)
        for generation in self._running.values():
            generation.tell_again()  # each is stored once
        self._claim_due = time.monotonic() + RECOVERY_S

    def _hand_over(self) -> None:
        """Write what is computed, then give back what runs."""
        self._exchange(claiming=False)
        if self._running:
            logger.info("handing %d messages over", len(self._running))
            self._leases.give_back()
