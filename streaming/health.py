"""GET /healthz and /readyz."""

from __future__ import annotations

from streaming.asgi import send_json
from streaming.endpoint import Call
from streaming.gateway import Gateway


async def live(call: Call) -> None:
    """Say that this process runs."""
    await send_json(call.send, {"status": "ok"}, headers=call.headers)


async def ready(call: Call) -> None:
    """Say whether requests can be served: 503 while draining, without Redis or without a worker."""
    obstacle = _obstacle(call.gateway)
    status = 503 if obstacle else 200
    await send_json(call.send, {"status": obstacle or "ok"}, status=status, headers=call.headers)


def _obstacle(gateway: Gateway) -> str:
    if gateway.drain.begun:
        return "draining"
    if not (gateway.catalog.redis_ok and gateway.announcements.up):
        return "redis does not answer"
    return "" if gateway.catalog.ready else "no worker is ready"
