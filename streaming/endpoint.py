"""The frame around every endpoint: method, request id, and the one place where errors become responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from common.errors import ApiError, MethodNotAllowed, Overloaded, Unavailable
from common.ids import new_id
from inference.protocol.full import is_full
from inference.protocol.minutes import BAD, LEFT_OUT
from streaming.answers import error_answer
from streaming.asgi import ClientGone, Message, Receive, Scope, Send, ids_of, read_body, send_bytes
from streaming.gateway import Gateway
from streaming.parameters import check_headers, query_of
from streaming.timing import Stopwatch
from streaming.traces import Trace
from streaming.verdicts import SHUTDOWN, Answer, verdict_of, verdict_of_error

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Call:
    """One HTTP request on its way through an endpoint."""

    gateway: Gateway
    scope: Scope
    receive: Receive
    send: Send
    request_id: str = field(default_factory=lambda: new_id("req"))
    query: Mapping[str, str] = field(default_factory=dict)
    answer: Answer = field(default_factory=Answer)
    trace: Trace | None = None

    async def body(self) -> bytes:
        """Return the request's body."""
        return await read_body(self.receive, self.gateway.settings.max_body_mb * 1_000_000)

    def follow(self, watch: Stopwatch, operation: str) -> None:
        """Begin to trace this request, where traces are told."""
        if self.gateway.spans is not None:
            spans, scope = self.gateway.spans, self.scope
            self.trace = Trace(spans, scope, watch, request_id=self.request_id, operation=operation)

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
        return [*ids_of(self.request_id), *self.gateway.cors.headers(self.scope)]


Handler = Callable[[Call], Awaitable[None]]


class Endpoint:
    """An ASGI application for one path: a handler for each method, and what it may be asked for besides a body.

    `parameters` are those that the query may have (None: any, and nothing comes of them), `wishes` the headers of
    ours. `starts` says that it needs the gateway's connections; /healthz does not. `generates` says that what a POST
    comes to is counted.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        parameters: Collection[str] | None = (),
        wishes: Collection[str] = (),
        starts: bool = True,
        generates: bool = False,
        **handlers: Handler,
    ) -> None:
        self._gateway, self._starts, self._generates = gateway, starts, generates
        self._parameters, self._wishes = parameters, wishes
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched_send(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        call = Call(self._gateway, scope, receive, watched_send)
        call.answer.counts = self._generates and scope["method"] == "POST"
        verdict = LEFT_OUT
        try:
            await self._handle(call)
            verdict = verdict_of(call.answer.last_sent)
        except ClientGone:
            pass  # there is nobody to tell
        except ApiError as error:
            verdict = await self._fail(call, error, begun)
        except Exception as error:
            verdict = await self._fail(call, _told_of(error, call.request_id), begun)
        except asyncio.CancelledError:
            if self._gateway.drain.over.is_set():
                verdict = verdict_of(call.answer.last_sent) or BAD + SHUTDOWN
            raise
        finally:
            if call.trace is not None:
                call.trace.end(verdict, call.answer.last_sent)
            if call.answer.counts and verdict:
                self._gateway.measures.answered(call.answer, verdict)

    async def _handle(self, call: Call) -> None:
        method = call.scope["method"]
        handler = self._handlers.get("GET" if method == "HEAD" else method)
        if handler is None:
            allowed = ", ".join(sorted(self._handlers))
            preflight = self._gateway.cors.preflight(call.scope, allowed) if method == "OPTIONS" else None
            if preflight is not None:
                headers = [*ids_of(call.request_id), *preflight]
                await send_bytes(call.send, b"", b"text/plain", status=204, headers=headers)
                return
            raise MethodNotAllowed(f"{method} is not served here, only {allowed}.", headers={"allow": allowed})
        if self._parameters is not None:
            call.query = query_of(call.scope, self._parameters)
        check_headers(call.scope, self._wishes)
        if self._starts:
            await self._gateway.started()
        await handler(call)

    async def _fail(self, call: Call, error: ApiError, begun: bool) -> str:
        """Tell the client of an error; return the verdict on that."""
        if begun:  # too late for a status; streams give their errors a typed end themselves
            logger.error("%s: failed in mid-response: %s", call.request_id, error)
            call.drop()
            return BAD + error.kind
        self._gateway.measures.refused(error)
        if call.trace is not None:
            call.trace.refused(error.status, error.kind)
        await error_answer(error, call.request_id, scope=call.scope, cors=self._gateway.cors).send(call.send)
        return verdict_of_error(error)


def _told_of(error: Exception, request_id: str) -> ApiError:
    """Log an error that is not the caller's, and return what the caller is told of it."""
    if isinstance(error, RedisConnectionError | RedisTimeoutError):
        logger.error("%s: redis is away: %s", request_id, error)
        return Unavailable("The event log cannot be reached. Try again shortly.", headers={"retry-after": "2"})
    if isinstance(error, RedisError) and is_full(error):
        logger.error("%s: redis is full: %s", request_id, error)
        return Overloaded("The server has no room for this now. Try again shortly.", headers={"retry-after": "2"})
    logger.exception("%s failed", request_id)
    return ApiError("The server failed to answer this request. It has been logged.")
