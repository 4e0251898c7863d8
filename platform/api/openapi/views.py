"""What DRF's views say of themselves in the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

import api.openapi.fields as fields  # what it declares has to be known  # noqa: F401
from api.openapi.common import ALWAYS, WITH_BODY, WITH_KEY, errors, headers
from api.parameters import Parameter
from api.views import StrictView
from common.errors import ApiError, Conflict, NotAcceptable, NotFound

Json = dict[str, Any]
Method = TypeVar("Method", bound=Callable[..., Any])


def described(
    operation_id: str,
    summary: str,
    about: str,
    *,
    answer: Any,
    example: Any,
    status: int = 200,
    request: Any = None,
    request_example: Any = None,
) -> Callable[[Method], Method]:
    """Describe a method of a view, with examples that work."""
    examples = [] if request_example is None else [OpenApiExample("body", request_example, request_only=True)]
    describe: Callable[[Method], Method] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=about,
        request=request,
        examples=examples,
        responses={
            status: OpenApiResponse(answer, summary, [OpenApiExample("answer", example, response_only=True)]),
        },
    )
    return describe


class Schema(AutoSchema):
    """Adds what all our views have: their query parameters, headers, and errors."""

    view: StrictView[Any]  # type: ignore[override]  # no others are described

    def get_override_parameters(self) -> list[Any]:
        return [_parameter(known) for known in self.view.parameters_of(self.method)]

    def _is_list_view(self, serializer: Any = None) -> bool:
        return False  # pages are described as they are: `api.pages.page_of`

    def get_tags(self) -> list[str]:
        return [self.view.tag]

    def get_operation(self, *args: Any, **kwargs: Any) -> Json | None:
        operation: Json | None = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        operation.setdefault("security", [])
        for response in operation["responses"].values():
            response["headers"] = headers(*(["cache-control"] if self.view.keeps_secrets else []))
        operation["responses"] |= errors(*self._kinds(operation))
        return operation

    def _kinds(self, operation: Json) -> list[type[ApiError]]:
        kinds = [*(WITH_KEY if operation["security"] else ALWAYS), NotAcceptable]
        kinds += [NotFound] if "{" in self.path else []
        kinds += WITH_BODY if "requestBody" in operation else ()
        return kinds if self.method == "GET" else [*kinds, Conflict]


def _parameter(known: Parameter) -> OpenApiParameter:
    schema = dict(known.schema)
    if schema.get("type") == "array":  # with commas
        return OpenApiParameter(known.name, schema, description=known.about, style="form", explode=False)
    return OpenApiParameter(known.name, schema, description=known.about)
