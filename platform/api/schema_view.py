"""GET /v1/openapi.json: the schema of the API, for anybody."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from django.http import HttpResponse
from rest_framework.request import Request

from api.openapi.document import document
from api.openapi.views import described
from api.views import StrictView

KEPT_S = 300


class ShowSchema(StrictView[Any]):
    """Show the schema."""

    authentication_classes = ()
    permission_classes = ()
    tag = "Operations"

    @described(
        "showSchema", "This schema", "OpenAPI 3.1, for tools.", answer=dict[str, Any], example={"openapi": "3.1.0"}
    )
    def get(self, request: Request) -> HttpResponse:
        headers = {"cache-control": f"public, max-age={KEPT_S}"}
        return HttpResponse(_encoded(), content_type="application/json", headers=headers)


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(document())
