"""From a body to a queued message: who, what, does it fit, is it admitted."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from dataclasses import dataclass

from accounts.keys import Caller
from common.errors import InvalidRequest
from common.ids import new_id
from inference.protocol.requests import GenerationRequest, Sampling
from quotas.admission import admit
from streaming.catalog import Model
from streaming.endpoint import Call
from streaming.eventlog import Chunk
from streaming.prompts import TemplateError
from streaming.surfaces.anthropic import MessagesBody, conversation
from streaming.timing import Stopwatch

RETRY_MS = 2000
LONG_PROMPT = 4096  # characters; from here on tokenising would hold up the other streams for over a millisecond


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message that is about to be queued."""

    request: GenerationRequest
    caller: Caller
    headers: list[tuple[bytes, bytes]]


async def tokenize(model: Model, turns: list[dict[str, str]]) -> tuple[int, ...]:
    """Return the prompt's token ids; raise `InvalidRequest` when the model's template refuses the turns."""
    try:
        if sum(len(turn["content"]) for turn in turns) < LONG_PROMPT:
            return model.template.encode(turns)
        return await asyncio.to_thread(model.template.encode, turns)
    except TemplateError as error:
        raise InvalidRequest(f"messages: the model's chat template refuses them: {error}") from None


async def accept(call: Call, body: MessagesBody, caller: Caller, watch: Stopwatch) -> Accepted:
    """Check that a message can be served, and admit it; raise an `ApiError` otherwise."""
    created_at = time.time()
    model = call.gateway.catalog.find(body.model)
    turns = conversation(body)
    prompt_ids = await tokenize(model, turns)
    room = model.context_length - len(prompt_ids)
    if body.max_tokens > room:
        raise InvalidRequest(
            f"max_tokens: the prompt has {len(prompt_ids)} tokens and max_tokens is {body.max_tokens}, "
            f"but the context of {model.name} is {model.context_length} tokens."
        )
    watch.stage("validation")
    message_id = new_id("msg")
    admission = await admit(caller, message_id=message_id, input_tokens=len(prompt_ids), max_tokens=body.max_tokens)
    watch.stage("admission")
    request = GenerationRequest(
        id=message_id,
        model=model.name,
        organization=caller.organization,
        key=caller.key,
        prompt_ids=prompt_ids,
        texts=tuple(turn["content"] for turn in turns if turn["role"] != "assistant"),
        max_tokens=body.max_tokens,
        stop_sequences=tuple(body.stop_sequences),
        sampling=Sampling(temperature=body.temperature, top_p=body.top_p, top_k=body.top_k, seed=secrets.randbits(63)),
        created_at=created_at,
    )
    headers = [(name.encode(), value.encode()) for name, value in admission.headers.items()]
    return Accepted(request, caller, headers)


async def enqueue(call: Call, accepted: Accepted) -> Chunk:
    """Open the message's log and queue it; return its first event."""
    jittered = RETRY_MS + random.randrange(RETRY_MS // 2)
    return await call.gateway.log.open(accepted.request, caller=accepted.caller, retry_ms=jittered)
