"""From a body to a queued message: who, what, does it fit, is it admitted."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

from redis.exceptions import RedisError

from accounts.keys import Caller
from common.errors import ApiError, Gone, InvalidRequest, NotFound, Unavailable
from common.ids import new_id
from inference.protocol.requests import GenerationRequest
from quotas.admission import admit
from streaming.catalog import Model
from streaming.endpoint import Call
from streaming.eventlog import Chunk
from streaming.idempotency import Claim
from streaming.prompts import TemplateError
from streaming.timing import Stopwatch
from streaming.wanted import Turn, Wanted

RETRY_MS = 2000
LONG_PROMPT = 4096  # characters; from here on tokenising would hold up the other streams for over a millisecond
FROM_THE_START = Chunk(b"", 0, 0, False)
CLAIM_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A message that can be served: a new one to be opened, or one that an idempotency key has made already."""

    request: GenerationRequest
    claim: Claim | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def id(self) -> str:
        return self.claim.message_id if self.claim else self.request.id

    @property
    def is_new(self) -> bool:
        return self.claim is None or self.claim.ours


async def tokenize(model: Model, turns: list[Turn]) -> tuple[int, ...]:
    """Return the prompt's token ids; raise `InvalidRequest` when the model's template refuses the turns."""
    try:
        if sum(len(turn["content"]) for turn in turns) < LONG_PROMPT:
            return model.template.encode(turns)
        return await asyncio.to_thread(model.template.encode, turns)
    except TemplateError as error:
        raise InvalidRequest(f"messages: the model's chat template refuses them: {error}") from None


async def accept(
    call: Call, wanted: Wanted, caller: Caller, watch: Stopwatch, *, raw: bytes, idempotency_key: str
) -> Accepted:
    """Check that a message can be served, claim its idempotency key, admit it; raise an `ApiError` otherwise."""
    call.gateway.janitor.check()
    request = await prepare(call, wanted, caller)
    watch.stage("validation")
    keys = call.gateway.idempotency_keys
    while idempotency_key:
        claim = await keys.claim(caller, idempotency_key, raw, request.id)
        if claim.ours:
            return await _admit(call, caller, watch, request, claim)
        if await _is_opened(call, claim, caller):
            return Accepted(request=request, claim=claim)
        # Whoever held the key was refused and gave it back: it is ours to try.
    return await _admit(call, caller, watch, request, None)


async def prepare(call: Call, wanted: Wanted, caller: Caller) -> GenerationRequest:
    """Tokenise what is wanted and check that it fits its model."""
    created_at = time.time()
    model = call.gateway.catalog.find(wanted.model)
    prompt_ids = await tokenize(model, wanted.turns)
    room = model.context_length - len(prompt_ids)
    max_tokens = room if wanted.max_tokens is None else wanted.max_tokens
    if max_tokens > room or room < 1:
        raise InvalidRequest(
            f"max_tokens: the prompt has {len(prompt_ids)} tokens and max_tokens is {wanted.max_tokens}, "
            f"but the context of {model.name} is {model.context_length} tokens."
        )
    return GenerationRequest(
        id=new_id("msg"),
        model=model.name,
        organization=caller.organization,
        key=caller.key,
        prompt_ids=prompt_ids,
        texts=tuple(turn["content"] for turn in wanted.turns if turn["role"] != "assistant"),
        max_tokens=max_tokens,
        stop_sequences=wanted.stop_sequences,
        sampling=wanted.sampling,
        created_at=created_at,
    )


async def enter(call: Call, accepted: Accepted, *, read: bool) -> Chunk:
    """Open a new message's log and queue it, or join one that is there; return what comes first.

    `read` makes the caller a reader, who has to leave later.
    """
    if not accepted.is_new:
        if read:
            await call.gateway.log.join(accepted.id, accepted.request.organization)
        return FROM_THE_START
    retry_ms = RETRY_MS + random.randrange(RETRY_MS // 2)
    keys = call.gateway.idempotency_keys
    try:
        first = await call.gateway.log.open(accepted.request, retry_ms=retry_ms, read=read)
        if accepted.claim:
            await keys.keep(accepted.claim)
        return first
    except ApiError:
        if accepted.claim:
            await keys.release(accepted.claim)
        raise
    except RedisError:  # it may be queued all the same; without a claim nobody would find it
        if accepted.claim is None:
            call.gateway.spawn(call.gateway.log.cancel(accepted.id, "abandoned"), "cancel")
        raise


async def _admit(
    call: Call, caller: Caller, watch: Stopwatch, request: GenerationRequest, claim: Claim | None
) -> Accepted:
    try:
        admission = await admit(
            caller, message_id=request.id, input_tokens=len(request.prompt_ids), max_tokens=request.max_tokens
        )
    except ApiError:
        if claim:
            await call.gateway.idempotency_keys.release(claim)
        raise
    watch.stage("admission")
    headers = tuple((name.encode(), value.encode()) for name, value in admission.headers.items())
    return Accepted(request=request, claim=claim, headers=headers)


async def _is_opened(call: Call, claim: Claim, caller: Caller) -> bool:
    """Wait until the holder of a claim has opened its log; False when it gave the claim back, `Gone` after expiry."""
    log, give_up = call.gateway.log, time.monotonic() + CLAIM_PATIENCE_S
    while time.monotonic() < give_up:
        try:
            await log.check(claim.message_id, caller.organization)
        except NotFound:  # claimed a moment ago, not opened yet
            if not await call.gateway.idempotency_keys.stands(claim):
                return False
            await asyncio.sleep(0.02)
        except Gone:
            raise Gone("idempotency-key: its message is done, and its stream has expired.") from None
        else:
            return True
    raise Unavailable("idempotency-key: the request that came first has not begun yet.", headers={"retry-after": "2"})
