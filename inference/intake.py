"""From a claim to a generation that can run. What can not is ended here, and so is what shall not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import redis

from inference.broker import SETTLED, Broker, Call
from inference.claims import Claim, Taken
from inference.detokenizer import Vocabulary
from inference.faults import fault_of
from inference.generation import Generation
from inference.protocol.outcomes import CANCEL_REASONS, CancelReason, Outcome
from inference.protocol.progress import Progress
from inference.protocol.reports import Settlement, common_of
from inference.protocol.requests import GenerationRequest, NewerVersion, PayloadError
from inference.protocol.settings import Settings
from inference.safety.book import NotReady, PolicyBook, UnknownPolicy
from inference.transcript import Transcript

logger = logging.getLogger(__name__)

MAX_LOST = 3  # workers that one request may cost


class Intake:
    """Opens the claims of one worker."""

    def __init__(
        self,
        broker: Broker,
        vocabulary: Vocabulary,
        book: PolicyBook,
        settings: Settings,
        worker: str,
        *,
        note: Callable[[Settlement], None] = lambda _: None,
    ) -> None:
        """`note` is told of each message that was settled here."""
        self._broker, self._vocabulary, self._book = broker, vocabulary, book
        self._settings, self._worker, self._note = settings, worker, note

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
            self._settle(Transcript(claim, taken), common_of(request))
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
            self._settle(generation, common_of(request), self._ending(generation))
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
        self._settle(transcript, common_of(request), self._ending(transcript))

    def _end_unread(self, claim: Claim, outcome: Outcome) -> None:
        """End a message of which nothing is known but its log, and settle it by that."""
        taken = self._take(claim)
        common = self._broker.common_of(claim.id)
        if taken is None or common is None:
            self._write(claim.id, self._broker.discard(claim))
            return
        transcript, ending = Transcript(claim, taken), []
        if taken.progress.outcome is None:
            kind = "timeout_error" if outcome == "timeout" else "api_error"
            transcript.fail(outcome, kind=kind, message="No worker could read this request.")
            ending.append(self._ending(transcript))
        self._settle(transcript, common, *ending)

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

    def _ending(self, transcript: Transcript) -> Call:
        """Return the call that writes the end of a message that will not run."""
        return self._broker.append(transcript, transcript.take())

    def _settle(self, transcript: Transcript, common: Mapping[str, Any], *before: Call) -> None:
        settlement = transcript.settlement(common, self._worker)
        accounting = self._broker.account(settlement, transcript.pen)
        *_, reply = self._write(transcript.id, *before, accounting, self._broker.settle(settlement, transcript.pen))
        if reply == SETTLED:
            self._note(settlement)

    def _write(self, message_id: str, *calls: Call) -> list[Any]:
        replies = self._broker.exchange(calls)
        for reply in replies:
            if isinstance(reply, redis.ResponseError):
                logger.error("%s: cannot be written (%s)", message_id, reply)
        return replies

    def _is_overdue(self, waited_ms: float, patience_s: int | None = None) -> bool:
        return waited_ms > (patience_s or self._settings.queue_timeout_s) * 1000


def cancel_reason(word: str) -> CancelReason:
    """Read the reason of a cancel; a newer gateway may know others."""
    return word if word in CANCEL_REASONS else "cancelled"
