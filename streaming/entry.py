"""From a request to a queued message: whose it is by its idempotency key, whether it is admitted, into the queue."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.exceptions import RedisError

from accounts.callers import Caller
from common.error_forms import speaks_openai
from common.errors import ApiError, Gone, NotFound, RateLimited, Unavailable
from inference.protocol.opening import RETRY_MS
from inference.protocol.quotas import lease_ms
from inference.protocol.requests import GenerationRequest
from quotas.admission import admit, give_back, limited
from quotas.headers import anthropic_headers, openai_headers
from streaming.asgi import header
from streaming.endpoint import Call
from streaming.eventlog import Chunk, Joined
from streaming.idempotency import Claim
from streaming.intake import prepare
from streaming.proxy_wait import HEADER as PROXY_HEADER
from streaming.proxy_wait import waited_ms
from streaming.timing import Stopwatch
from streaming.wanted import Wanted

FROM_THE_START = Chunk(b"", 0, 0, False)
CLAIM_PATIENCE_S = 10.0
GIVE_BACK_S = 1.0  # that an answer waits for it; then it goes on by itself


@dataclass(slots=True, kw_only=True)
class Accepted:
    """A message that can be served: a new one to be queued, or one that an idempotency key has made already.

    Until it `may_be_queued`, what was taken for a new one is still to be given back.
    """

    request: GenerationRequest
    claim: Claim | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    may_have_taken: bool = False
    may_be_queued: bool = False

    @property
    def id(self) -> str:
        return self.claim.message_id if self.claim else self.request.id

    @property
    def is_new(self) -> bool:
        return self.claim is None or self.claim.ours


@asynccontextmanager
async def receiving(call: Call) -> AsyncIterator[tuple[bytes, Caller, Stopwatch]]:
    """Take a request that would create work: its body, who sent it, and the time since it was there."""
    with call.gateway.drain.new_work():
        raw = await call.body()
        watch = Stopwatch()
        watch.proxy_ms = waited_ms(header(call.scope, PROXY_HEADER), time.time())
        call.follow(watch, "chat")
        caller = await call.gateway.authenticator.authenticate(call.scope, needs="inference")
        call.answer.organization = caller.organization
        watch.stage("auth")
        yield raw, caller, watch


@asynccontextmanager
async def accepting(
    call: Call, wanted: Wanted, caller: Caller, watch: Stopwatch, *, raw: bytes, idempotency_key: str
) -> AsyncIterator[Accepted]:
    """Check that a message can be served, claim its idempotency key, admit it; raise an `ApiError` otherwise.

    Whatever comes before `enter` has brought it into the queue, what was claimed and taken is given back.
    """
    call.gateway.janitor.check()
    call.gateway.spool.check()
    request = await prepare(call.gateway.catalog, wanted, caller, watch)
    if call.trace is not None:
        request = call.trace.followed(request)
    call.answer.model = request.model
    accepted = Accepted(request=request, claim=await _claim(call, caller, request, raw, idempotency_key))
    try:
        if accepted.is_new:
            await _admit(call, caller, accepted)
            watch.stage("admission")
        yield accepted
    finally:
        if accepted.is_new and not accepted.may_be_queued:
            await asyncio.wait({call.gateway.spawn(_give_back(call, accepted), "give back")}, timeout=GIVE_BACK_S)


async def enter(call: Call, accepted: Accepted, *, read: bool) -> tuple[Chunk, Joined | None]:
    """Open a new message's log and queue it, or join one that is there; return what comes first, and what was joined.

    `read` makes the caller a reader, who has to leave later.
    """
    if not accepted.is_new:
        joined = await call.gateway.log.join(accepted.id, accepted.request.organization) if read else None
        call.answer.counts = False  # the message is judged already, or will be, for the request that made it
        return FROM_THE_START, joined
    retry_ms = RETRY_MS + random.randrange(RETRY_MS // 2)
    accepted.may_be_queued = True
    try:
        first = await call.gateway.log.open(accepted.request, retry_ms=retry_ms, read=read)
        if accepted.claim:
            await call.gateway.idempotency_keys.keep(accepted.claim)
        return first, None
    except ApiError:
        accepted.may_be_queued = False
        raise
    except RedisError:  # it may be queued all the same; without a claim nobody would find it
        if accepted.claim is None:
            call.gateway.spawn(call.gateway.log.cancel(accepted.id, "abandoned"), "cancel")
        raise


async def _claim(
    call: Call, caller: Caller, request: GenerationRequest, raw: bytes, idempotency_key: str
) -> Claim | None:
    while idempotency_key:
        claim = await call.gateway.idempotency_keys.claim(caller, idempotency_key, raw, request.id)
        if claim.ours or await _is_opened(call, claim, caller):
            return claim
        # Whoever held the key was refused and gave it back: it is ours to try.
    return None


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


async def _admit(call: Call, caller: Caller, accepted: Accepted) -> None:
    request, gateway = accepted.request, call.gateway
    is_openai = speaks_openai(call.scope["path"], lambda name: header(call.scope, name.encode()))
    accepted.may_have_taken = bool(limited(caller))
    try:
        headers = await admit(
            gateway.log.run,
            caller,
            message_id=request.id,
            input_tokens=len(request.prompt_ids),
            max_tokens=request.max_tokens,
            created_at=request.created_at,
            lease_ms=lease_ms(gateway.settings),
            form=openai_headers if is_openai else anthropic_headers,
            note=gateway.measures.limited,
        )
    except RateLimited:
        accepted.may_have_taken = False
        raise
    accepted.headers = tuple((name.encode(), value.encode()) for name, value in headers.items())


async def _give_back(call: Call, accepted: Accepted) -> None:
    if accepted.claim:
        await call.gateway.idempotency_keys.release(accepted.claim)
    if accepted.may_have_taken:
        await give_back(call.gateway.log.run, accepted.request.organization, accepted.id)
