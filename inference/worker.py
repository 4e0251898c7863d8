"""The worker's loop: claim, step, release, settle."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from inference import traces
from inference.broker import FENCED, OVERTAKEN, SETTLED, Broker, Call, checked
from inference.claims import Claim
from inference.detokenizer import Vocabulary
from inference.engines.base import Engine, EngineRequest, StepOutput
from inference.faults import fault_of
from inference.generation import Generation
from inference.intake import Intake, cancel_reason
from inference.meter import Meter
from inference.protocol.closeups import held_field
from inference.protocol.full import is_full
from inference.protocol.heartbeats import about_process, process_id, version_of
from inference.protocol.quotas import lease_ms, long_lease_ms, renewing
from inference.protocol.requests import NewerVersion
from inference.protocol.settings import Settings
from inference.recovery import Recovery
from inference.room import Sizes
from inference.safety.book import NotReady, PolicyBook
from inference.safety.classifiers import open_classifier
from inference.safety.judge import judge
from inference.tail import Batch
from inference.watchdog import LEASES, Watchdog

if TYPE_CHECKING:
    from inference.protocol.spans import Spans

logger = logging.getLogger(__name__)

BEAT_S = 1.0
IDLE_WAIT_S = 0.5
FORMING_S = 0.002  # after the first of a burst: those that come with it are computed with it
FULL_PATIENCE_S = 10.0  # a full Redis has as long as one that is away: logs expire, and then there is room again
RECOVERY_S = 1.0  # after an outage nobody claims for so long: those who run a message make sure of it first
NEWER_PAUSE_S = 1.0  # after meeting a request for newer workers: let them have it
NOT_READY_PAUSE_S = 0.5  # while the checks of a request are loaded

Asked = tuple[Call, Callable[[Any], None]]  # a call, and what to do with its reply


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
        self.id = process_id()
        self._engine, self._broker, self._settings = engine, broker, settings
        broker.worker = self.id
        open_on_device = partial(open_classifier, device=settings.device)
        self._book = PolicyBook(
            broker, open_on_device, "refusal" if settings.safety_stop_reason == "refusal" else "safety"
        )
        self._meter = Meter()
        self._intake = Intake(broker, vocabulary, self._book, settings, self.id, note=self._meter.settled)
        self._recovery = Recovery(broker, settings)
        self._sizes = Sizes()
        self._spans = spans
        self._watchdog = Watchdog(settings.lease_s * LEASES)
        self._running: dict[str, Generation] = {}
        self._stopping = stopping or threading.Event()
        self._started_at = time.time()
        self._drain_until: float | None = None
        self._beat_due = self._renew_due = self._reserve_due = self._claim_due = 0.0

    def stop(self) -> None:
        """Ask the loop to end: running messages go back to the queue, for another worker to continue."""
        self._stopping.set()

    @property
    def draining(self) -> bool:
        """Whether an operator asked this worker to claim no more, and to end once what it runs has ended."""
        return self._drain_until is not None

    def run(self) -> None:
        """Serve until stopped or drained."""
        try:
            while not (self._stopping.is_set() or self._is_drained()):
                self.turn()
                if not self._running and not self.draining and self._broker.wait_for_work(IDLE_WAIT_S):
                    self._stopping.wait(FORMING_S)
            self._hand_over()
        except redis.RedisError as error:
            if not self._stopping.is_set():
                raise
            logger.warning("stopped while redis is away (%s): leases will lapse", error)
        finally:
            self._leave()

    def turn(self) -> None:
        """Compute one step and exchange its results with Redis in one round trip."""
        with self._watchdog:
            outputs = self._engine.step()
        self._take(outputs)
        self._end_overdue()
        self._exchange(claiming=not (self._stopping.is_set() or self.draining))
        self._beat()

    def _take(self, outputs: Sequence[StepOutput]) -> None:
        """Let messages have what the step gave them, and write what is judged to be safe."""
        for output in outputs:
            self._meter.heard(output)
            self._try(self._running[output.id], partial(Generation.push, output=output))
        self._go_on([self._running[output.id] for output in outputs])
        for output in outputs:
            if output.finish is None and self._running[output.id].outcome is not None:
                self._engine.cancel(output.id)  # a stop string or a check ended it; the engine does not know

    def _go_on(self, generations: Sequence[Generation]) -> None:
        """Have judged together what messages ask for, then let each proceed."""
        judge(ask for generation in generations for ask in generation.asks())
        for generation in generations:
            self._try(generation, Generation.proceed)

    def _try(self, generation: Generation, act: Callable[[Generation], None]) -> None:
        try:
            act(generation)
        except Exception as error:  # whatever is wrong with one message is no reason to end the others
            self._fail(generation, fault_of(error))

    def _end_overdue(self) -> None:
        for generation in self._running.values():
            longest_s = self._settings.request_timeout_s + (generation.request.patience_s or 0)
            if generation.outcome is None and generation.elapsed_s > longest_s:
                self._engine.cancel(generation.id)
                generation.fail("timeout", kind="timeout_error", message="The request took too long.")

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
            *self._reports(),  # before what they are about can leave: it is not told again once it has
            *self._appends(),
            *self._settlements(),
            *self._renewals(claiming),
            *self._reservations(),
        ]
        if claiming:
            asks.append((self._broker.claim(room), self._begin_all))
        if asks:
            replies = self._broker.exchange([call for call, _ in asks])
            for (_, heed), reply in zip(asks, replies, strict=True):
                heed(reply)

    def _appends(self) -> Iterator[Asked]:
        for generation in self._running.values():
            if generation.is_due:
                batch = generation.take()
                yield self._broker.append(generation, batch), partial(self._heed_append, generation, batch)

    def _reports(self) -> Iterator[Asked]:
        for generation in self._running.values():
            if untold := generation.untold:
                yield self._broker.report(untold), partial(self._heed_report, generation, len(untold))

    def _heed_report(self, generation: Generation, count: int, reply: Any) -> None:
        if isinstance(reply, redis.ResponseError):
            logger.error("%s: what safety checks found cannot be told (%s)", generation.id, reply)
        else:
            generation.told(count)

    def _settlements(self) -> Iterator[Asked]:
        for generation in self._running.values():
            if generation.outcome is not None:
                settlement = generation.settlement(generation.request, self.id)
                yield self._broker.account(settlement, generation.pen), self._heed_account
                call = self._broker.settle(settlement, generation.pen)
                yield call, partial(self._heed_settlement, generation, call)

    def _renewals(self, claiming: bool) -> Iterator[Asked]:
        """Renew when it is time, and before each claim: after an outage it would return what we are running."""
        now = time.monotonic()
        held = [(g.id, g.pen) for g in self._running.values() if g.outcome is None]
        if held and (claiming or now >= self._renew_due):
            self._renew_due = now + self._settings.lease_s / 3
            yield self._broker.renew(held), self._heed_renewal

    def _reservations(self) -> Iterator[Asked]:
        """Keep what quotas hold for the messages that run."""
        now = time.monotonic()
        if self._running and now >= self._reserve_due:
            self._reserve_due = now + self._settings.lease_s
            for call in self._reserving(lease_ms(self._settings)):
                yield call, self._heed_account

    def _reserving(self, lease_ms: int) -> Iterator[Call]:
        names: defaultdict[str, list[str]] = defaultdict(list)
        for generation in self._running.values():
            names[generation.request.organization].append(generation.id)
        for organization, message_ids in names.items():
            yield renewing(organization, message_ids, lease_ms)

    def _heed_account(self, reply: Any) -> None:
        if isinstance(reply, redis.ResponseError):
            logger.error("quotas cannot be kept (%s): the reconciliation will set them right", reply)

    def _heed_append(self, generation: Generation, batch: Batch, reply: Any) -> None:
        """Act on what the log says of a message: another attempt has it, somebody cancelled it, it takes no more."""
        if isinstance(reply, redis.ResponseError):
            self._heed_refusal(generation, batch, reply)
        elif reply == FENCED:
            logger.warning("%s: attempt %d was fenced off", generation.id, generation.attempt)
            self._drop(generation)
        elif not isinstance(reply, bytes):
            self._mend(generation, batch, reply)
        else:
            generation.written(batch)
            if reply and generation.outcome is None:
                self._engine.cancel(generation.id)
                generation.cancel(cancel_reason(reply.decode()))

    def _mend(self, generation: Generation, batch: Batch, reply: Any) -> None:
        """Write again what the log has lost. Where we have not kept enough of it, what the log has is gone on from."""
        mended = self._recovery.mended(generation, batch, reply)
        if mended is not None:
            self._heed_append(generation, mended, self._recovery.write(generation, mended, reply))
        elif generation.outcome is not None:
            logger.error("%s: its log is gone, or lacks too much: its end cannot be written", generation.id)
        elif self._recovery.give_back(generation, reply):
            self._drop(generation)
        else:
            self._fail(generation, "its log is gone")

    def _heed_refusal(self, generation: Generation, batch: Batch, error: redis.ResponseError) -> None:
        if generation.outcome is not None:  # and it is settled: there is no more to be done
            logger.error("%s: its end cannot be written (%s)", generation.id, error)
            return
        refused_s = generation.put_back(batch)
        if not is_full(error) or refused_s > FULL_PATIENCE_S:
            self._fail(generation, f"its events cannot be written ({error})")

    def _heed_settlement(self, generation: Generation, settling: Call, reply: Any) -> None:
        if self._running.get(generation.id) is not generation:
            return  # fenced off: this account is not the one
        if reply == OVERTAKEN and self._recovery.reclaim(generation):
            (reply,) = self._broker.exchange([settling])
        if isinstance(reply, redis.ResponseError):
            logger.error("%s: cannot be settled (%s): who claims it next will", generation.id, reply)
        del self._running[generation.id]
        if reply == SETTLED and not generation.is_counted:  # it may be settled again, after an outage
            generation.is_counted = True
            settlement = generation.settlement(generation.request, self.id)
            self._meter.settled(settlement)
            if self._spans is not None:
                traces.tell(self._spans, generation.request, settlement)
        self._recovery.remember(generation)

    def _heed_renewal(self, reply: Any) -> None:
        for name in checked(reply):
            generation = self._running.get(name.decode())
            if generation is not None:
                self._hold(generation)

    def _hold(self, generation: Generation) -> None:
        """Keep a message whose claim has gone if it is ours still: then Redis has forgotten the claim."""
        batch = generation.take()
        (reply,) = self._broker.exchange([self._broker.append(generation, batch)])
        self._heed_append(generation, batch, reply)
        if self._running.get(generation.id) is generation and not self._recovery.reclaim(generation):
            self._drop(generation)

    def _look_back(self) -> None:
        """After an outage, end again what ended shortly before, and let those who run a message be heard first."""
        for generation in self._recovery.given_up(self._running.values()):
            self._engine.cancel(generation.id)
            generation.fail("error", kind="api_error", message="The event log was away for too long.")
        for generation in self._recovery.recall():
            if generation.id not in self._running:
                self._running[generation.id] = generation
        for generation in self._running.values():
            generation.tell_again()  # each is stored once
        self._claim_due = time.monotonic() + RECOVERY_S

    def _begin_all(self, reply: Any) -> None:
        """Start on what was claimed, once its prompts are judged."""
        begun = [generation for claim in self._broker.claims_of(reply) if (generation := self._begin(claim))]
        self._go_on(begun)
        for generation in begun:
            if generation.outcome is None:
                self._submit(generation)

    def _begin(self, claim: Claim) -> Generation | None:
        """Open a claimed request; return None where there is nothing left to do."""
        if claim.id in self._running:  # the lease has lapsed: what we hold is no further than its log
            self._drop(self._running[claim.id])
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

    def _submit(self, generation: Generation) -> None:
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

    def _drop(self, generation: Generation) -> None:
        """Forget a message that another attempt has taken over."""
        if self._running.get(generation.id) is generation:
            del self._running[generation.id]
            self._engine.cancel(generation.id)

    def _is_drained(self) -> bool:
        return self._drain_until is not None and (not self._running or time.monotonic() > self._drain_until)

    def _hand_over(self) -> None:
        """Write what is computed, then give back what runs."""
        self._exchange(claiming=False)
        if self._running:
            logger.info("handing %d messages over", len(self._running))
            releases = [self._broker.release(g.id, g.pen) for g in self._running.values()]
            self._broker.exchange([*self._reserving(long_lease_ms(self._settings)), *releases])

    def _leave(self) -> None:
        try:
            self._broker.add_counts(self.id, self._meter.tally)
            self._broker.add_minutes(self.id, self._meter.minutes)
            self._broker.leave(self.id)
        except redis.RedisError as error:
            logger.warning("redis is away (%s): the heartbeat will age", error)

    def _beat(self) -> None:
        if time.monotonic() >= self._beat_due:
            self._beat_due = time.monotonic() + BEAT_S
            self._broker.beat(self.id, self.about())
            self._book.prepare()
            self._broker.add_counts(self.id, self._meter.tally)
            self._broker.add_minutes(self.id, self._meter.minutes)
            if not self.draining and self._broker.is_to_drain(self.id, self._started_at):
                self._drain()

    def _drain(self) -> None:
        logger.info("asked to drain: %d messages have %g s to end", len(self._running), self._settings.drain_s)
        self._drain_until = time.monotonic() + self._settings.drain_s
        self._broker.beat(self.id, self.about())  # the page that it was asked from need not wait for the next one

    def about(self) -> dict[str, Any]:
        """Say what this worker is and how loaded: the content of its heartbeat."""
        torch = {"torch": version_of("torch")} if "torch" in sys.modules else {}  # the simulated engine does without
        return {
            **about_process(self._started_at),
            **torch,
            "draining": self.draining,
            "model": self._settings.model,
            "engine": self._settings.engine,
            "context_length": self._engine.context_length,
            "max_batch": self._engine.max_batch,
            **asdict(self._engine.stats()),
            **self._meter.about(),
            **held_field((g.id, g.num_waiting) for g in self._running.values()),
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
        grammar=request.grammar,
        priority=request.priority,
        waited_s=generation.elapsed_s,
        text=request.texts[-1] if request.texts else "",
    )
