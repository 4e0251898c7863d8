"""The bodies that the gateway reads, from the structs that read them."""

from __future__ import annotations

from typing import Any

from api.openapi.common import ref
from streaming.openapi.structs import schemas_of
from streaming.surfaces import chat_body, messages_body
from streaming.surfaces.hints import HINT

Json = dict[str, Any]
CHAT = "OpenAI"  # before the names of OpenAI's, of which some are Anthropic's, too

# What fields are for, where their name and type do not say it.
ABOUT = {
    "model": "The id of a model that is served; `default` is the first one.",
    "messages": "The conversation, the last message the user's.",
    "system": "What the model is told before the conversation.",
    "max_tokens": "The most tokens to generate. With the prompt it has to fit the model's context.",
    "max_completion_tokens": "The same as `max_tokens`.",
    "stream": "Answer with Server-Sent Events as the tokens come.",
    "temperature": "0 takes the likeliest token; 1 draws as the model says.",
    "top_p": "Draw from the likeliest tokens that have this probability together.",
    "top_k": "Draw from so many of the likeliest tokens; 0 is all.",
    "stop_sequences": "Texts that end the answer, and are not part of it.",
    "stop": "Texts that end the answer, and are not part of it.",
    "seed": "The same seed, request and model give the same answer.",
    "tools": "Tools that the answer may call.",
    "tool_choice": "Whether the answer may call tools, has to, and which.",
    "parallel_tool_calls": "false: the answer ends with its first call.",
    "disable_parallel_tool_use": "The answer ends with its first call.",
    "output_config": "Hold the answer to a JSON schema.",
    "output_format": "The same as `output_config.format`, its older name.",
    "response_format": "Hold the answer to JSON, or to a JSON schema.",
    "stream_options": "What a stream carries besides text.",
    "include_usage": "A last chunk has the usage of the whole answer.",
    "strict": "Hold calls of it to its schema, also where the model may choose.",
    "input_schema": "The JSON schema of its input.",
    "parameters": "The JSON schema of its arguments.",
}
_NOTHING = "Takes only the value that asks for nothing."
_REFUSED = "thread"  # read so that it can be refused in the way that clients know


def body_schemas() -> Json:
    """Return the schemas of all bodies, by name."""
    ours = schemas_of(messages_body.MessagesBody, messages_body.CountBody, messages_body.ToolIn)
    for body in (ours["MessagesBody"], ours["CountBody"]):
        del body["properties"][_REFUSED]
        body["properties"]["tools"]["items"] = ref("ToolIn")  # read one by one, later
    theirs = schemas_of(chat_body.ChatBody, prefix=CHAT)
    return {name: _explained(schema) for name, schema in (ours | theirs).items()}


def hints() -> dict[str, list[str]]:
    """Return the hints that do nothing, by the schema that has them."""
    found = {
        name: [field for field, part in schema.get("properties", {}).items() if part.get(HINT)]
        for name, schema in body_schemas().items()
    }
    return {name: fields for name, fields in found.items() if fields}


def _explained(schema: Json) -> Json:
    for name, field in schema.get("properties", {}).items():
        if _asks_for_nothing(field):
            field.setdefault("description", _NOTHING)
        elif name in ABOUT:
            field.setdefault("description", ABOUT[name])
    return schema


def _asks_for_nothing(field: Json) -> bool:
    """Say whether only null, or a value that is as good, is taken."""
    choices = [choice for choice in field.get("anyOf", [field]) if choice.get("type") != "null"]
    return all(
        choice.get("maxItems") == 0 or choice.get("maxProperties") == 0 or choice.get("maximum") == 0
        or choice.get("const") in (1, False) or choice == ref("ThinkingDisabled")
        for choice in choices
    ) and "$ref" not in field  # fmt: skip
