"""What a request may ask for outside its body: query parameters and headers of ours, known by name or refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl

from api.parameters import refuse_unknown
from common.errors import InvalidRequest, UnsupportedMediaType
from streaming.asgi import Scope, header

OURS = "x-sluice-"


def query_of(scope: Scope, known: Collection[str]) -> Mapping[str, str]:
    """Return the query; raise `InvalidRequest` for a parameter that is not known, or comes twice."""
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    refuse_unknown((name for name, _ in pairs), known)
    query = dict(pairs)
    if len(query) < len(pairs):
        twice = next(name for name, value in pairs if query[name] != value or pairs.count((name, value)) > 1)
        raise InvalidRequest(f"{twice}: expected once in the query.")
    return query


def check_headers(scope: Scope, known: Collection[str]) -> None:
    """Raise an `ApiError` for a header that asks for what this path cannot do."""
    for name, _ in scope["headers"]:
        text = name.decode("latin-1")
        if text.startswith(OURS) and text not in known:
            raise InvalidRequest(f"{text}: no such header here.", code="unknown_parameter")
    encoding = header(scope, b"content-encoding")
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType(f"content-encoding: expected none, not {encoding}.")
    if scope["method"] == "POST" and header(scope, b"last-event-id") and not header(scope, b"idempotency-key"):
        # A client that has lost its connection: it would get another answer, and take it for the rest of the first.
        raise InvalidRequest("last-event-id: a POST begins a message; GET /v1/streams/{id} resumes one.")
