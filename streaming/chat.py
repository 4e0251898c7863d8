"""POST /v1/chat/completions: OpenAI's form of the same."""

from __future__ import annotations

from streaming.endpoint import Call
from streaming.entry import receiving
from streaming.posting import serve
from streaming.surfaces.chat_body import parse_chat, wanted
from streaming.surfaces.openai import ChatChunks


async def create_completion(call: Call) -> None:
    """Answer with a stream of chunks, or with one completion."""
    async with receiving(call) as (raw, caller, watch):
        body = parse_chat(raw)
        include_usage = body.stream_options is not None and body.stream_options.include_usage
        surface = ChatChunks(include_usage=include_usage)
        await serve(call, caller, wanted(body), watch, raw=raw, streamed=bool(body.stream), surface=surface)
