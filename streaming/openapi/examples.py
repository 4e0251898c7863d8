"""Requests that work as they stand, and what is answered to them."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

ID = "msg_0190f3a1b2c34d5e6f708192a3b4c5d6"
QUESTION = {"role": "user", "content": "Say hello in five words."}
PROMPT = {"model": "default", "messages": [QUESTION]}
MESSAGE = {"model": "default", "max_tokens": 64, "messages": [QUESTION]}
STREAMED = MESSAGE | {"stream": True}
WITH_TOOL = {
    "model": "default",
    "max_tokens": 128,
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [
        {
            "name": "get_weather",
            "description": "The weather of a city.",
            "input_schema": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        }
    ],
    "tool_choice": {"type": "any"},
}
CHAT = {"model": "default", "max_tokens": 64, "messages": [{"role": "system", "content": "Be brief."}, QUESTION]}
CHAT_STREAMED = CHAT | {"stream": True, "stream_options": {"include_usage": True}}

ANSWER = {
    "id": ID,
    "type": "message",
    "role": "assistant",
    "model": "SmolLM2-135M-Instruct",
    "content": [{"type": "text", "text": "Hello, and welcome to you!"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 36, "output_tokens": 8},
}
DETACHED = {
    "id": ID,
    "stream_url": f"/v1/streams/{ID}?token=eyJrIjoia2V5XyJ9.c2lnbmVk",
    "message_url": f"/v1/streams/{ID}/message",
    "expires_at": 1767225600,
}
MODEL = {
    "id": "SmolLM2-135M-Instruct",
    "max_input_tokens": 8192,
    "type": "model",
    "display_name": "SmolLM2-135M-Instruct",
    "created_at": "2026-01-01T00:00:00Z",
    "object": "model",
    "created": 1767225600,
    "owned_by": "sluice",
}
MODELS = {"object": "list", "data": [MODEL], "has_more": False, "first_id": MODEL["id"], "last_id": MODEL["id"]}
COMPLETION = {
    "id": ID,
    "object": "chat.completion",
    "created": 1767225600,
    "model": MODEL["id"],
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello, and welcome to you!", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 36,
        "completion_tokens": 8,
        "total_tokens": 44,
        "prompt_tokens_details": {"cached_tokens": 0},
    },
}
EVENT = {
    "id": "7",
    "event": "content_block_delta",
    "data": '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}',
}
CHUNK = {
    "data": f'{{"id":"{ID}","object":"chat.completion.chunk","created":1767225600,"model":"{MODEL["id"]}",'
    '"choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}]}'
}
