"""The least that a streaming server can do under Daphne: an ASGI app that sends the same typed event at a given pace.

No routing, no log, no other process: what an event costs here is what Daphne costs. `gateway.py` runs it beside the
product; alone: `EVENTS=500 GAP_S=0.02 daphne -p 9100 raw_app:app` in this folder.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

EVENTS = int(os.environ.get("EVENTS", "500"))
GAP_S = float(os.environ.get("GAP_S", "0.02"))

DELTA = (
    b"id: 42\nevent: content_block_delta\n"
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" lighthouse"}}\n\n'
)
STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer any request with EVENTS deltas, GAP_S apart."""
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for _ in range(EVENTS):
        await asyncio.sleep(GAP_S)
        await send({"type": "http.response.body", "body": DELTA, "more_body": True})
    await send({"type": "http.response.body", "body": STOP, "more_body": False})
