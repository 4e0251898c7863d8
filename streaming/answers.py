"""The one place where errors become responses: their form, the request's id, what pages of other origins need."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus

from common.error_forms import error_body
from common.errors import ApiError
from streaming.asgi import Scope, Send, header, ids_of
from streaming.cors import Cors, Pairs


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response."""

    status: int
    headers: Pairs
    body: bytes

    async def send(self, send: Send) -> None:
        """Send it from an application."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})

    def http1(self) -> bytes:
        """Return it as it goes over an HTTP/1.1 connection that it is the last on."""
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}".encode()]
        lines += [b"%b: %b" % pair for pair in (*self.headers, (b"connection", b"close"))]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body


def error_answer(error: ApiError, request_id: str, *, scope: Scope, cors: Cors) -> Answer:
    """Return the response that tells of an error; of the scope, the path and the headers are looked at."""
    told = error_body(error, request_id, path=scope["path"], header=lambda name: header(scope, name.encode()))
    body = json.dumps(told).encode()
    return Answer(
        error.status,
        [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            *ids_of(request_id),
            *cors.headers(scope),
            *((name.encode(), value.encode()) for name, value in error.headers.items()),
        ],
        body,
    )
