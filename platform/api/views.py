"""What DRF's views have in common: queries that are read strictly, and what the schema says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from django.db.models import Model
from rest_framework import generics
from rest_framework.request import Request

from api.parameters import Parameter, refuse_unknown
from common.errors import InvalidRequest

Row = TypeVar("Row", bound=Model)


class StrictView(generics.GenericAPIView[Row]):
    """A view that knows its query parameters by name, those of a GET; other methods have none."""

    http_method_names = ["get", "post", "put", "patch", "delete", "head"]  # OPTIONS is for browsers' preflights alone
    tag: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    keeps_secrets: ClassVar[bool] = False  # that nobody on the way may keep

    @property
    def query(self) -> Mapping[str, str]:
        """The query, which has each name once."""
        return self.request.query_params.dict()

    def parameters_of(self, method: str) -> tuple[Parameter, ...]:
        """Return what the query of a request may have."""
        return self.parameters if method in ("GET", "HEAD") else ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method not in self.allowed_methods:
            return  # and is told so next
        known = self.parameters_of(str(request.method))
        refuse_unknown(request.query_params, [parameter.name for parameter in known])
        for name, values in request.query_params.lists():
            if len(values) > 1:
                raise InvalidRequest(f"{name}: expected once in the query.")
