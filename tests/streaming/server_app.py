"""Run by test_server.py: our server with a small application, on a port that it prints."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from streaming import request
from streaming.server import Server, listening_socket, tls_options

PIECE = b"x" * 1000
LOTS = 20_000
written = {"fast": 0, "slow": 0}  # by floods


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer by path: `/slow/N` and `/fast/N` send N pieces, `/flood` as many as the client takes, `/echo` its body."""
    if scope["path"] == "/fail":
        raise RuntimeError("as the test wants")
    body = b""
    if scope["path"] == "/echo":
        message = await receive()
        body = message["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    kind, _, number = scope["path"].lstrip("/").partition("/")
    if kind in ("slow", "fast"):
        for i in range(int(number)):
            piece = b"%d\n" % i * (i % 50 + 1)
            if kind == "slow" or not scope["extensions"]["sluice.write"](piece):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    elif kind == "flood":
        for _ in range(LOTS):
            now = scope["extensions"]["sluice.write"]
            if number == "slow" or not now(PIECE):
                await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            written[number] += 1
            await asyncio.sleep(0)
    elif kind == "written":
        body = str(written[number]).encode()
    elif kind == "broken":
        raise RuntimeError("in mid-response, as the test wants")
    elif kind == "drop":
        scope["extensions"]["sluice.drop"]()
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def drain() -> None:
    print("draining", flush=True)
    await asyncio.sleep(0.3)


async def close() -> None:
    print("closed", flush=True)


if __name__ == "__main__":
    request.UPLOAD_S = 1.0
    sock = listening_socket("127.0.0.1", 0)
    print(sock.getsockname()[1], flush=True)
    tls = tls_options(Path(sys.argv[1]), Path(sys.argv[2])) if sys.argv[1:] else None
    Server(application, sock, max_body_bytes=1000, tls=tls, drain=drain, close=close).run()
    sys.exit(0)
