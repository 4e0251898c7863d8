"""The few ASGI pieces that the endpoints share."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from common.errors import RequestTooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]


class ClientGone(Exception):
    """Raised when the client has left before it sent its whole request."""


def header(scope: Scope, name: bytes) -> str:
    """Return a request header (the name in lower case), or ""."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return ""


def ids_of(request_id: str) -> list[tuple[bytes, bytes]]:
    """Return the headers with a request's id: Anthropic's name for it, and OpenAI's."""
    return [(b"request-id", request_id.encode()), (b"x-request-id", request_id.encode())]


async def read_body(receive: Receive, limit: int) -> bytes:
    """Return the request's body of at most `limit` bytes."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise RequestTooLarge(f"The body is larger than the {limit} bytes allowed.")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_json(send: Send, body: Any, *, status: int = 200, headers: Headers = ()) -> None:
    """Send a whole JSON response."""
    await send_bytes(send, json.dumps(body).encode(), b"application/json", status=status, headers=headers)


async def send_bytes(send: Send, body: bytes, content_type: bytes, *, status: int = 200, headers: Headers = ()) -> None:
    """Send a whole response."""
    head = [(b"content-type", content_type), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body, "more_body": False})
