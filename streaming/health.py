"""GET /healthz and /readyz."""

from __future__ import annotations

from streaming.asgi import send_json
from streaming.endpoint import Call


async def live(call: Call) -> None:
    """Say that this process runs."""
    await send_json(call.send, {"status": "ok"}, headers=call.headers)


async def ready(call: Call) -> None:
    """Say whether requests can be served: 503 without Redis or without a worker."""
    catalog = call.gateway.catalog
    reason = "ok" if catalog.ready else "no worker is ready" if catalog.redis_ok else "redis does not answer"
    await send_json(call.send, {"status": reason}, status=200 if catalog.ready else 503, headers=call.headers)
