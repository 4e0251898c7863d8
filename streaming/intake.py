"""From what is wanted to a request for a worker: tokenised, and known to fit its model."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from accounts.callers import Caller
from common.errors import InvalidRequest
from common.ids import new_id
from inference.protocol.requests import GenerationRequest
from streaming.catalog import Catalog, Model
from streaming.holding import hold_to
from streaming.prompts import TemplateError
from streaming.timing import Stopwatch
from streaming.wanted import Asked, Wanted

LONG_PROMPT = 4096  # characters; from here on tokenising would hold up the other streams for over a millisecond


async def tokenize(model: Model, asked: Asked) -> tuple[int, ...]:
    """Return the prompt's token ids; raise `InvalidRequest` when the model's template refuses the turns."""
    encode = partial(
        model.template.ask,
        asked.turns,
        tools=asked.shown_tools,
        output=asked.output.body if asked.output else None,
    )
    try:
        is_long = sum(map(len, asked.texts)) + sum(len(turn["content"]) for turn in asked.turns) > LONG_PROMPT
        return await asyncio.to_thread(encode) if is_long else encode()
    except TemplateError as error:
        raise InvalidRequest(f"messages: the model's chat template refuses them: {error}") from None


async def prepare(catalog: Catalog, wanted: Wanted, caller: Caller, watch: Stopwatch) -> GenerationRequest:
    """Tokenise what is wanted and check that it fits its model."""
    created_at = time.time()
    model = catalog.find(wanted.model, caller)
    hold = await hold_to(wanted, model.template)
    watch.stage("validation")
    prompt_ids = await tokenize(model, wanted)
    watch.stage("tokenizing")
    room = model.context_length - len(prompt_ids)
    max_tokens = room if wanted.max_tokens is None else wanted.max_tokens
    if max_tokens > room or room < 1:
        raise InvalidRequest(
            f"max_tokens: the prompt has {len(prompt_ids)} tokens and max_tokens is {wanted.max_tokens}, "
            f"but the context of {model.name} is {model.context_length} tokens.",
            code="context_length_exceeded",
        )
    return GenerationRequest(
        id=new_id("msg"),
        model=model.name,
        organization=caller.organization,
        key=caller.key,
        prompt_ids=prompt_ids,
        texts=wanted.texts,
        max_tokens=max_tokens,
        stop_sequences=wanted.stop_sequences,
        sampling=wanted.sampling,
        priority=caller.priority,
        policy=await catalog.policies.reference(caller.policy),
        tools=hold.tools,
        grammar=hold.grammar,
        created_at=created_at,
    )
