"""Run by serving.py: our server with a small application, on a port that it prints."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

from streaming import deadline
from streaming.cors import Cors
from streaming.server import Server, listening_socket, tls_options

PIECE = b"x" * 1000
LOTS = 20_000
written = {"fast": 0, "slow": 0}  # by floods


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer by path.

    `/slow/N` and `/fast/N` send N pieces, `/flood` as many as the client takes, `/big/N` N bytes at once, `/echo` what
    the client sent, `/scope` what the server made of it; `/wait/S` is silent for S seconds; `/stubborn` does not
    end when it is told to.
    """
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
    elif kind == "wait":
        await send({"type": "http.response.body", "body": b"wait", "more_body": True})
        await asyncio.sleep(float(number))
    elif kind == "stubborn":
        await send({"type": "http.response.body", "body": b"no", "more_body": True})
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
    elif kind == "scope":
        body = f"{scope['type']} {scope['path']} {scope['root_path']!r}".encode()
    elif kind == "big":
        body = b"x" * int(number)
    elif kind == "drop":
        scope["extensions"]["sluice.drop"]()
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def drain() -> None:
    print("draining", flush=True)
    await asyncio.sleep(0.3)


async def close(_: float) -> None:
    print("closed", flush=True)


if __name__ == "__main__":
    deadline.IDLE_S = 1.2
    deadline.LINGER_S = 1.5
    deadline.LINGER_BYTES = 30_000_000
    deadline.CLOSING_S = 0.6
    deadline.STALLED_S = 1.8
    sock = listening_socket("127.0.0.1", 0)
    print(sock.getsockname()[1], flush=True)
    tls = tls_options(Path(sys.argv[1]), Path(sys.argv[2])) if sys.argv[1:] else None
    Server(
        application,
        sock,
        cors=Cors("https://shop.example"),
        max_body_bytes=1000,
        larger_bodies={b"/larger": 2000},
        receive_timeout_s=0.8,
        tls=tls,
        budget_s=2.0,
        drain=drain,
        close=close,
    ).run()
    sys.exit(0)
