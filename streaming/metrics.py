"""GET /metrics: one scrape covers all processes, whichever gateway answers it."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress

from prometheus_client.exposition import choose_encoder
from redis.exceptions import RedisError

from common.errors import AuthenticationFailed
from streaming.asgi import Scope, header, send_bytes
from streaming.endpoint import Call
from streaming.scrape import Scrape, Snapshot

PATIENCE_S = 2.0  # for Redis; a scrape that comes late is of no use
FORWARDED = frozenset(
    (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via")
)


async def show(call: Call) -> None:
    """Answer a scrape."""
    check_may_see(call.scope, call.gateway.settings.metrics_token)
    try:
        async with asyncio.timeout(PATIENCE_S):
            snapshot = await call.gateway.look()
    except (TimeoutError, RedisError, OSError):
        snapshot = Snapshot(redis_up=False)
    scrape = Scrape(snapshot, queue_limit=call.gateway.settings.queue_limit)
    encode, content_type = choose_encoder(header(call.scope, b"accept"))
    text = await asyncio.to_thread(encode, scrape)  # some ms, for which streams need not wait
    await send_bytes(call.send, text, content_type.encode(), headers=call.headers)


def check_may_see(scope: Scope, token: str) -> None:
    """Raise `AuthenticationFailed` unless somebody on this machine asks for themselves, or shows the token."""
    scheme, _, shown = header(scope, b"authorization").partition(" ")
    if token and scheme.lower() == "bearer" and hmac.compare_digest(shown.encode("latin-1"), token.encode()):
        return
    peer = (scope.get("client") or [""])[0]
    if not _is_loopback(peer) or any(name in FORWARDED for name, _ in scope["headers"]):
        raise AuthenticationFailed("Metrics are for this machine, and for whoever shows SLUICE_METRICS_TOKEN.")


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
