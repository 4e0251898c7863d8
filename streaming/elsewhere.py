"""What this kind of process does not serve: a 404 that says which does."""

from __future__ import annotations

from common.errors import NotFound
from common.ids import new_id
from streaming.answers import error_answer
from streaming.asgi import Receive, Scope, Send
from streaming.cors import Application, Cors

_NO_ORIGINS = Cors("")  # for answers that `around` adds to


def elsewhere(why: str, *, cors: Cors) -> Application:
    """Return an application that serves nothing, and says why of each `{request}`."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        request = f"{scope['method']} {scope['path']}"
        error = NotFound(why.format(request=request), code="unknown_url")
        await error_answer(error, new_id("req"), scope=scope, cors=_NO_ORIGINS).send(send)

    return cors.around(refuse)
