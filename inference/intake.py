"""From a claim to a generation that can run. What can not is ended here, and so is what shall not."""

from __future__ import annotations

import logging

import redis

from inference.broker import Broker, Call
from inference.claims import Claim, Taken
from inference.detokenizer import Vocabulary
from inference.faults import fault_of
from inference.generation import Generation
from inference.protocol.outcomes import CANCEL_REASONS, CancelReason, Outcome
from inference.protocol.progress import Progress
from inference.protocol.requests import GenerationRequest, NewerVersion, PayloadError
from inference.protocol.settings import Settings
from inference.safety.book import NotReady, PolicyBook, UnknownPolicy
from inference.transcript import Transcript

logger = logging.getLogger(__name__)

MAX_LOST = 3  # workers that one request may cost


class Intake:
    """Opens the claims of one worker."""

    def __init__(
        self, broker: Broker, vocabulary: Vocabulary, book: PolicyBook, settings: Settings, worker: str
    ) -> None:
        self._broker, self._vocabulary, self._book = broker, vocabulary, book
        self._settings, self._worker = settings, worker

    def open(self, claim: Claim) -> Generation | None:
        """Return what is to run, or None; raise `NewerVersion` or `NotReady` after giving a request back."""
        try:
            request = GenerationRequest.decode(claim.payload)
        except NewerVersion as newer:
            if not self._is_overdue(claim.age_ms):
                self._write(claim.id, self._broker.release(claim.id, claim.pen))
                raise
            logger.error("%s: no worker came that can read it (%s)", claim.id, newer)
            self._end_unread(claim, "timeout")
        except PayloadError as error:
            logger.error("%s: its payload cannot be read (%s)", claim.id, error)
            self._end_unread(claim, "error")
        else:
            return self._take_up(claim, request)
        return None

    def _take_up(self, claim: Claim, request: GenerationRequest) -> Generation | None:
        taken = self._take(claim)
        if taken is None:
            return None
        if taken.progress.outcome is not None:  # its worker died between the last event and the settlement
            self._write(claim.id, *self._account(Transcript(claim, taken), request))
            return None
        try:
            checks = self._book.checks_of(request.policy)
            generation = Generation(claim, request, taken, self._vocabulary, checks)
        except (redis.ConnectionError, redis.TimeoutError):
            raise
        except NotReady:
            self._write(claim.id, self._broker.release(claim.id, claim.pen))
            raise
        except Exception as error:  # whatever is wrong with one message is no reason to end the others
            self._end_unopened(Transcript(claim, taken), request, error)
            return None
        if self._end_at_once(generation, claim, taken):
            self._conclude(generation, *self._account(generation, request))
            return None
        return generation

    def _end_at_once(self, generation: Generation, claim: Claim, taken: Taken) -> bool:
        if taken.cancel:
            generation.cancel(cancel_reason(taken.cancel))
        elif self._is_overdue(taken.waited_ms, generation.request.patience_s):
            generation.fail("timeout", kind="timeout_error", message="The request waited too long for a worker.")
        elif claim.lost >= MAX_LOST:
            message = f"{MAX_LOST} workers were lost on this request."
            generation.fail("worker_lost", kind="api_error", message=message)
        return generation.outcome is not None

    def _end_unopened(self, transcript: Transcript, request: GenerationRequest, error: Exception) -> None:
        logger.error("%s: cannot be begun: %s", transcript.id, fault_of(error))
        message = str(error) if isinstance(error, UnknownPolicy) else "The worker failed on this request."
        transcript.fail("error", kind="api_error", message=message)
        self._conclude(transcript, *self._account(transcript, request))

    def _end_unread(self, claim: Claim, outcome: Outcome) -> None:
        """End a message of which nothing is known but its log."""
        taken = self._take(claim)
        if taken is None or taken.progress.outcome is not None:
            self._write(claim.id, self._broker.discard(claim))
            return
        transcript = Transcript(claim, taken)
        kind = "timeout_error" if outcome == "timeout" else "api_error"
        transcript.fail(outcome, kind=kind, message="No worker could read this request.")
        self._conclude(transcript, self._broker.discard(claim))

    def _take(self, claim: Claim) -> Taken | None:
        try:
            taken = self._broker.take(claim)
        except (redis.ConnectionError, redis.TimeoutError):
            raise
        except Exception as error:
            logger.error("%s: its log cannot be taken over: %s", claim.id, fault_of(error))
            return Taken(progress=Progress(outcome="error"), waited_ms=claim.age_ms)
        if taken is None:
            logger.warning("%s: a later attempt has it", claim.id)
        return taken

    def _account(self, transcript: Transcript, request: GenerationRequest) -> tuple[Call, Call]:
        settlement = transcript.settlement(request, self._worker)
        return self._broker.account(settlement, transcript.pen), self._broker.settle(settlement, transcript.pen)

    def _conclude(self, transcript: Transcript, *settling: Call) -> None:
        """Write the end of a message that will not run, and settle it."""
        appending = self._broker.append(transcript, transcript.take())
        self._write(transcript.id, appending, *settling)

    def _write(self, message_id: str, *calls: Call) -> None:
        for reply in self._broker.exchange(calls):
            if isinstance(reply, redis.ResponseError):
                logger.error("%s: cannot be written (%s)", message_id, reply)

    def _is_overdue(self, waited_ms: float, patience_s: int | None = None) -> bool:
        return waited_ms > (patience_s or self._settings.queue_timeout_s) * 1000


def cancel_reason(word: str) -> CancelReason:
    """Read the reason of a cancel; a newer gateway may know others."""
    return word if word in CANCEL_REASONS else "cancelled"
