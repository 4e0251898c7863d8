"""What another kind of process serves: a 404 that says which."""

from __future__ import annotations

from common.errors import NotFound
from common.ids import new_id
from streaming.answers import error_answer
from streaming.asgi import Receive, Scope, Send
from streaming.cors import Application, Cors

_NO_ORIGINS = Cors("")  # for answers that `around` adds to


def elsewhere(lack: str, whose: str, *, cors: Cors) -> Application:
    """Return an application that serves nothing: `lack` says why, `whose` are the paths."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        error = NotFound(f"{lack} {scope['method']} {scope['path']} is for {whose}.", code="unknown_url")
        await error_answer(error, new_id("req"), scope=scope, cors=_NO_ORIGINS).send(send)

    return cors.around(refuse)
