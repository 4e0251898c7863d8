"""What a web process serves: all but streams."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from channels.routing import ProtocolTypeRouter, URLRouter
from django.db import Error as DatabaseError
from django.db import connection, connections
from django.urls import re_path
from redis.asyncio import Redis
from redis.exceptions import RedisError

from accounts.uses import GATHER_S
from common.errors import MethodNotAllowed
from common.ids import new_id
from config.pages import pages
from inference.protocol.settings import Settings
from streaming.answers import error_answer
from streaming.asgi import Receive, Scope, Send, ids_of, send_json
from streaming.changes import Changes
from streaming.cors import Application, Cors
from streaming.drain import Drain
from streaming.elsewhere import elsewhere
from streaming.paths import METRICS, OF_GATEWAYS
from streaming.tasks import end, forever

PATIENCE_S = 2.0  # for a database that does not answer at all


class Web:
    """One web process. Nobody waits for its heartbeat, so it has none: whatever it serves, any other can."""

    def __init__(self, settings: Settings) -> None:
        self.cors = Cors(settings.cors_origins)
        self.drain = Drain(settings.drain_s)
        self._redis: Redis = Redis.from_url(settings.redis, socket_timeout=10, socket_connect_timeout=5)
        self._changes = Changes(self._redis)
        self._asking: asyncio.Task[bool] | None = None

    def application(self) -> Any:
        """Return the ASGI application."""
        why = "This process serves no streams. {request} is for a gateway: manage.py gateway."
        theirs = elsewhere(why, cors=self.cors)
        ours: list[tuple[str, Application]] = [
            (OF_GATEWAYS, theirs),
            (METRICS, theirs),
            (r"healthz$", self._live),
            (r"readyz$", self._ready),
        ]
        routes = [re_path(f"^{route}", app) for route, app in ours]  # type: ignore[arg-type]  # ASGI apps, not views
        return ProtocolTypeRouter({"http": URLRouter([*routes, *pages(self.cors)])})

    async def obstacle(self) -> str:
        """Return why requests cannot be served, "" where they can."""
        if self.drain.begun:
            return "draining"
        if self._asking is None or self._asking.done():  # one question at a time: a thread that waits cannot be ended
            self._asking = asyncio.create_task(sync_to_async(_database_answers, thread_sensitive=False)())
        try:
            answers = await asyncio.wait_for(asyncio.shield(self._asking), PATIENCE_S)
        except TimeoutError:
            answers = False
        return "" if answers else "the database does not answer"

    async def start(self) -> None:
        """Begin to tell of the keys that are used."""
        self._telling = asyncio.create_task(forever(self._changes.tell_uses, every_s=GATHER_S, name="uses"))

    async def close(self, within_s: float) -> None:
        """Tell of the last ones, and end."""
        await end([self._telling])
        try:
            await asyncio.wait_for(self._changes.tell_uses(), within_s)
        except (RedisError, OSError):
            pass  # TimeoutError is one; a use is no reason to stay
        await self._redis.aclose()

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._tell(scope, send, _no_obstacle)

    async def _ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._tell(scope, send, self.obstacle)

    async def _tell(self, scope: Scope, send: Send, look: Callable[[], Awaitable[str]]) -> None:
        request_id = new_id("req")
        if scope["method"] not in ("GET", "HEAD"):
            error = MethodNotAllowed(f"{scope['method']} is not served here, only GET.", headers={"allow": "GET"})
            await error_answer(error, request_id, scope=scope, cors=self.cors).send(send)
            return
        obstacle = await look()
        headers = [*ids_of(request_id), *self.cors.headers(scope)]
        await send_json(send, {"status": obstacle or "ok"}, status=503 if obstacle else 200, headers=headers)


async def _no_obstacle() -> str:
    return ""


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    finally:
        connections.close_all()
    return True
