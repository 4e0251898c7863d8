"""Pages of other origins (`SLUICE_CORS_ORIGINS`): which may read our answers, and what they may send."""

from __future__ import annotations

from streaming.asgi import Scope, header

Pairs = list[tuple[bytes, bytes]]

_ALLOWED_HEADERS = (
    b"authorization, content-type, x-api-key, anthropic-version, anthropic-beta, "
    b"anthropic-dangerous-direct-browser-access, idempotency-key, last-event-id, x-sluice-on-disconnect"
)
_EXPOSED_HEADERS = b"request-id, retry-after, x-should-retry"


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

    def _allows(self, origin: str) -> bool:
        return bool(origin) and ("*" in self._origins or origin in self._origins)
