"""Pages of other origins (`SLUICE_CORS_ORIGINS`): which may read our answers, and what they may send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from common.ids import new_id
from quotas.headers import NAMES as RATE_LIMITS
from streaming.asgi import Message, Receive, Scope, Send, header, ids_of, send_bytes

Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Pairs = list[tuple[bytes, bytes]]

_ALLOWED_HEADERS = (
    b"authorization, content-type, x-api-key, anthropic-version, anthropic-beta, "
    b"anthropic-dangerous-direct-browser-access, idempotency-key, last-event-id, x-sluice-on-disconnect"
)
_EXPOSED_HEADERS = ", ".join(("request-id", "x-request-id", "retry-after", "x-should-retry", *RATE_LIMITS)).encode()


class Cors:
    """The origins that may use streams from a browser. None are, unless named."""

    def __init__(self, origins: str) -> None:
        """Take origins separated by commas; `*` is any."""
        self._origins = {origin.strip().rstrip("/") for origin in origins.split(",") if origin.strip()}

    def headers(self, scope: Scope) -> Pairs:
        """Return what a response tells the browser."""
        origin = header(scope, b"origin")
        if not self._allows(origin):
            return [(b"vary", b"origin")] if self._origins else []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
            (b"vary", b"origin"),
        ]

    def preflight(self, scope: Scope, methods: str) -> Pairs | None:
        """Return what the answer to a browser's OPTIONS says, None where it is none of an allowed origin."""
        if not self._allows(header(scope, b"origin")) or not header(scope, b"access-control-request-method"):
            return None
        wished = header(scope, b"access-control-request-headers")
        return [
            *self.headers(scope),
            (b"access-control-allow-methods", methods.encode()),
            # An origin that is allowed may send what it likes: official clients have headers of their own.
            (b"access-control-allow-headers", wished.encode("latin-1") or _ALLOWED_HEADERS),
            (b"access-control-max-age", b"600"),
        ]

    def around(self, application: Application) -> Application:
        """Let those pages read what an application answers under /v1 that knows nothing of them."""

        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            async def told(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message = {**message, "headers": [*message.get("headers", ()), *self.headers(scope)]}
                await send(message)

            if not scope["path"].startswith("/v1/"):
                await application(scope, receive, send)
            elif scope["method"] == "OPTIONS" and (headers := self.preflight(scope, _wished(scope))) is not None:
                headers += ids_of(new_id("req"))
                await send_bytes(send, b"", b"text/plain", status=204, headers=headers)
            else:
                await application(scope, receive, told)

        return wrapped

    def _allows(self, origin: str) -> bool:
        return bool(origin) and ("*" in self._origins or origin in self._origins)


def _wished(scope: Scope) -> str:
    return header(scope, b"access-control-request-method")
