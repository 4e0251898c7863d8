"""The frame around every endpoint: method, request id, and the one place where errors become responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from common.errors import ApiError, MethodNotAllowed, Unavailable
from common.ids import new_id
from streaming.asgi import ClientGone, Message, Receive, Scope, Send, read_body, send_bytes, send_json
from streaming.gateway import Gateway

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Call:
    """One HTTP request on its way through an endpoint."""

    gateway: Gateway
    scope: Scope
    receive: Receive
    send: Send
    request_id: str = field(default_factory=lambda: new_id("req"))

    async def body(self) -> bytes:
        """Return the request's body."""
        return await read_body(self.receive, self.gateway.settings.max_body_mb * 1_000_000)

    async def write(self, body: bytes) -> None:
        """Send a piece of the body, with more to come, the shortest way there is."""
        now = self.scope["extensions"].get("sluice.write") if "extensions" in self.scope else None
        if now is None or not now(body):
            await self.send({"type": "http.response.body", "body": body, "more_body": True})

    def drop(self) -> None:
        """Cut the connection, where the server has a way to; elsewhere the response just lacks its end."""
        cut = self.scope.get("extensions", {}).get("sluice.drop")
        if cut is not None:
            cut()

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every response."""
        request_id = self.request_id.encode()  # under Anthropic's name and OpenAI's
        return [(b"request-id", request_id), (b"x-request-id", request_id), *self.gateway.cors.headers(self.scope)]


Handler = Callable[[Call], Awaitable[None]]
ErrorBody = Callable[[ApiError, str], dict[str, Any]]


class Endpoint:
    """An ASGI application for one path: a handler for each method, and a form for its errors.

    `starts` says that it needs the gateway's connections; /healthz does not.
    """

    def __init__(
        self, gateway: Gateway, *, error_body: ErrorBody = ApiError.body, starts: bool = True, **handlers: Handler
    ) -> None:
        self._gateway, self._starts = gateway, starts
        self._error_body = error_body
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched_send(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        call = Call(self._gateway, scope, receive, watched_send)
        try:
            await self._handle(call)
        except ClientGone:
            pass  # there is nobody to tell
        except ApiError as error:
            await self._fail(call, error, begun)
        except (RedisConnectionError, RedisTimeoutError) as error:
            logger.error("%s: redis is away: %s", call.request_id, error)
            away = Unavailable("The event log cannot be reached. Try again shortly.", headers={"retry-after": "2"})
            await self._fail(call, away, begun)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("%s failed", call.request_id)
            await self._fail(call, ApiError("The server failed to answer this request. It has been logged."), begun)

    async def _handle(self, call: Call) -> None:
        method = call.scope["method"]
        handler = self._handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            allowed = ", ".join(sorted(self._handlers))
            preflight = self._gateway.cors.preflight(call.scope, allowed) if method == "OPTIONS" else None
            if preflight is not None:
                headers = [(b"request-id", call.request_id.encode()), *preflight]
                await send_bytes(call.send, b"", b"text/plain", status=204, headers=headers)
                return
            raise MethodNotAllowed(f"{method} is not served here, only {allowed}.", headers={"allow": allowed})
        if self._starts:
            await self._gateway.started()
        await handler(call)

    async def _fail(self, call: Call, error: ApiError, begun: bool) -> None:
        if begun:  # too late for a status; streams give their errors a typed end themselves
            logger.error("%s: failed in mid-response: %s", call.request_id, error)
            call.drop()
            return
        headers = [*call.headers, *((name.encode(), value.encode()) for name, value in error.headers.items())]
        await send_json(call.send, self._error_body(error, call.request_id), status=error.status, headers=headers)
